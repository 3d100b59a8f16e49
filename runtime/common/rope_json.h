// The rotary embedding in a config.json: Transformers 5 writes `rope_parameters`, earlier versions
// `rope_theta` and `rope_scaling`.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/common/model_config.h"
#include "runtime/common/result.h"

namespace lockstep::common {

// Fills in what of `config` says how positions turn; its head_dim and max_position_embeddings are
// read.
//   object: of normalized keys, with defaults.
// Errors as decode_model_json().
Result<void> decode_rope(const nlohmann::json& object, ModelConfig& config);

// The value of `rope_parameters`.
nlohmann::ordered_json encode_rope(const ModelConfig& config);

}  // namespace lockstep::common
