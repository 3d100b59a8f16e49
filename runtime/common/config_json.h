// The config.json of a Hugging Face directory, written and read back.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runtime/common/dtype.h"
#include "runtime/common/model_config.h"
#include "runtime/common/result.h"

namespace lockstep::common {

// The text of the config.json from which Transformers builds this model.
//   dtype:       of the weights beside it.
//   special_ids: bos_token_id and its like, which the model does not tell; those that are not given
//                are null. Absent would mean Transformers' defaults, which are ordinary bytes here.
std::string encode_config_json(const ModelConfig& config, DType dtype = DType::kFp32,
                               const nlohmann::json& special_ids = nlohmann::json::object());

// Reads the text of a config.json; see decode_model_json() in common/model_json.h.
// Errors: its own, and kInvalidArgument for what is not an object.
Result<ModelConfig> decode_config_json(std::string_view text);

// decode_config_json() of a file; kNotFound if it cannot be read. Messages name the file.
Result<ModelConfig> read_config_json(const std::string& path);

// The special ids in a config.json file, for encode_config_json(). Errors as read_config_json().
Result<nlohmann::json> read_special_ids(const std::string& path);

}  // namespace lockstep::common
