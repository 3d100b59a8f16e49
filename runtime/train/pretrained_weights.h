// The weights of a Hugging Face directory as first weights: each rank reads the ranges it owns.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors_folder.h"
#include "runtime/common/dtype.h"
#include "runtime/common/model_config.h"
#include "runtime/common/result.h"
#include "runtime/model/unit.h"

namespace lockstep::runtime {

// Note [Names in a directory]
// Tensors have the names that an export gives them: both directions follow common/model_tensors.h.
// Directories saved from the model without its head lack the first part ("model.",
// "transformer."), as Transformers allows. Buffers that are computed, not learned, are passed over
// (rotary frequencies, gpt2's causal masks). lm_head.weight beside tied embeddings must hold the
// same values. A model whose head tells a score has no need of lm_head.weight, and its score.weight
// may be missing: it is learned then. Nothing else may be missing or left over.
class PretrainedWeights {
 public:
  // Reads the headers of all files of `folder` and holds them against the model; no weights yet.
  //   units: of the model of `config`.
  // Errors: those of SafetensorsFolder::open(); kInvalidArgument for a tensor that is missing,
  // unexpected, or of another shape or type than fp32, bf16 and fp16. Messages name file and
  // tensor.
  static common::Result<PretrainedWeights> open(const std::string& folder,
                                                const common::ModelConfig& config,
                                                std::span<const Unit> units);

  // The same of FOLDER/adapter_model.safetensors as PEFT writes it.
  //   units: of the adapters.
  static common::Result<PretrainedWeights> open_adapter(const std::string& folder,
                                                        std::span<const Unit> units);

  // Fills `out` with the exact values of elements [begin_elem, begin_elem + out.size()) of a unit,
  // with at most 4 MiB besides; those of tensors that the folder lacks are left as they are. Blocks
  // on the file system. Errors: as SafetensorsReader::read();
  // kInvalidArgument if lm_head.weight differs from the embedding that it is tied to.
  common::Result<void> read(int64_t unit, int64_t begin_elem, std::span<float> out) const;

  // Whether the folder lacks a tensor of the unit: the score alone may be missing.
  bool lacks_some(int64_t unit) const;

  common::Result<std::string> fingerprint() const { return folder_.fingerprint(); }
  common::Result<std::string> stamp() const { return folder_.stamp(); }

 private:
  // A tensor of a unit.
  struct Source {
    std::string name;
    int64_t begin_elem = 0;  // in the unit
    int64_t num_elems = 0;
    common::DType dtype = common::DType::kFp32;
    FolderTensor tensor;
  };

  PretrainedWeights(std::string path, SafetensorsFolder folder, const char* hint);
  common::Result<void> find_sources(std::span<const Unit> units);
  common::Result<Source> find_source(const UnitTensor& tensor) const;
  std::set<std::string> used_names() const;
  common::Result<void> check_rest(const common::ModelConfig& config, const UnitTensor& embedding);
  static common::Result<void> read_source(const Source& source, int64_t begin_elem,
                                          std::span<float> out);
  common::Result<void> compare_tied(int64_t begin_elem, std::span<const float> embedding) const;

  std::string path_;
  const char* hint_;  // what to do where tensors and model do not fit
  SafetensorsFolder folder_;
  std::vector<std::vector<Source>> units_;
  std::set<int64_t> lacking_;        // units
  std::optional<Source> tied_head_;  // lm_head.weight, where it is the embedding again
};

}  // namespace lockstep::runtime
