// The adapter_config.json of a LoRA adapter as PEFT writes it.
// Source: peft, src/peft/tuners/lora/config.py.
#pragma once

#include <string>
#include <string_view>

#include "runtime/common/lora.h"
#include "runtime/common/model_config.h"
#include "runtime/common/result.h"

namespace lockstep::common {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterWeightsFile = "adapter_model.safetensors";

// An adapter, and the model that it belongs to.
struct PeftAdapter {
  LoraConfig lora;         // without merge and path
  std::string base_model;  // base_model_name_or_path; empty if it does not tell
};

// The text from which PEFT loads the adapter of `lora` for `model`, which lies at `base_model`.
std::string encode_adapter_config(const ModelConfig& model, const LoraConfig& lora,
                                  const std::string& base_model);

// Reads the text of an adapter_config.json.
// Errors: kInvalidArgument, by key, for what is not a LoRA that our layers compute: another kind of
// adapter, biases, DoRA, ranks by module, targets as a pattern, modules beside the adapters.
Result<PeftAdapter> decode_adapter_config(std::string_view text);

// The same of FOLDER/adapter_config.json; kNotFound if there is none. Messages name the file.
Result<PeftAdapter> read_adapter_config(const std::string& folder);

// Errors: kInvalidArgument if the adapter of `folder` is another than the job's `lora` makes for
// `model`: rank, alpha, useRslora or the modules. The message names the field of the job.
Result<void> check_same_adapter(const ModelConfig& model, const LoraConfig& lora,
                                const std::string& folder);

}  // namespace lockstep::common
