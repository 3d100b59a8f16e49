// The sliding windows in a config.json: which layers have one.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/common/model_config.h"
#include "runtime/common/model_family.h"
#include "runtime/common/result.h"

namespace lockstep::common {

// Fills in `config.slides`, and takes `config.sliding_window` away where it is switched off; it and
// num_hidden_layers are read.
//   object: of normalized keys, with defaults.
// Errors as decode_model_json().
Result<void> decode_windows(const ModelFamily& family, const nlohmann::json& object,
                            ModelConfig& config);

}  // namespace lockstep::common
