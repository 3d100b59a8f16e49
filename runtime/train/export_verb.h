// `lockstep-runtime export`: a checkpoint as a Hugging Face directory.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::runtime {

struct ExportVerbOptions {
  std::string source;  // the output folder of a run, or the folder of a checkpoint
  int64_t step = 0;    // of a run; 0 = its newest sound one
  std::string dtype;   // fp32, bf16, fp16; empty = the job's export.dtype
  std::string output;  // must not exist; empty = model-step-N in the current folder
  // Folders that stand for the job's model.path and tokenizer.path; empty = as the job names them.
  std::string model;
  std::string tokenizer;
};

// Writes the folder: model.safetensors and config.json as the run itself would have left them, of a
// run with lora its adapter in PEFT's format (with merge too: the model is not merged here), the
// files of its tokenizer, and a model card. Reads the shards piece by piece: it holds a few MiB of
// weights at a time, whatever the model. What the job names by hf:// is looked up in the cache, or
// fetched, weights excepted. The folder appears as a whole, by rename. Returns its path.
// Throws RunError: kInputNotFound for what is not there, kCheckpointDamaged, kInvalidConfig for a
// folder that exists or a checkpoint of a custom loop, kOutputUnwritable; exit_code_of_hub().
std::string export_verb(const ExportVerbOptions& options);

}  // namespace lockstep::runtime
