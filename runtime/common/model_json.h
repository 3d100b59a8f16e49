// A model's config.json, read and written; also the inline `model.config`, which has the same keys.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "runtime/common/dtype.h"
#include "runtime/common/model_config.h"
#include "runtime/common/result.h"

namespace lockstep::common {

// The model that Transformers would build from `object`. Absent keys get Transformers' values of
// the family.
// Errors: kInvalidArgument naming the key, for a value that is missing, of the wrong type, out of
// bounds, or that asks for what the decoder does not do; for a family that is not in the table; for
// a key that is neither the family's nor known to change nothing.
Result<ModelConfig> decode_model_json(const nlohmann::json& object);

// What Transformers takes for keys that a config.json of that family does not have; empty for a
// family that is not in the table.
nlohmann::json default_model_json(std::string_view model_type);

// The `model.config` of a job from which decode_model_json() builds this model: what changes the
// computation, and nothing else.
nlohmann::json encode_model_fields(const ModelConfig& config);

// The config.json from which Transformers builds this model.
//   dtype: of the weights beside it.
nlohmann::ordered_json encode_model_json(const ModelConfig& config, DType dtype);

}  // namespace lockstep::common
