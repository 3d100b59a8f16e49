// The config.json of a Hugging Face directory, written and read back.
#pragma once

#include <string>
#include <string_view>

#include "runtime/common/dtype.h"
#include "runtime/common/result.h"
#include "runtime/common/train_config.h"

namespace lockstep::runtime {

// The text of the config.json from which Transformers builds this model.
//   dtype: of the weights beside it.
std::string encode_config_json(const common::ModelConfig& config,
                               common::DType dtype = common::DType::kFp32);

// Reads the text of a config.json; see decode_model_json() in common/model_json.h.
// Errors: its own, and kInvalidArgument for what is not an object.
common::Result<common::ModelConfig> decode_config_json(std::string_view text);

// decode_config_json() of a file; kNotFound if it cannot be read. Messages name the file.
common::Result<common::ModelConfig> read_config_json(const std::string& path);

}  // namespace lockstep::runtime
