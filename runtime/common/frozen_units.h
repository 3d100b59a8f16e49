// `train.model.frozen`: which units of the model keep their first weights.
#pragma once

#include <string>
#include <vector>

#include "runtime/common/result.h"

namespace lockstep::common {

// What an entry looks like: a unit's name, or a range of layers with both ends.
inline constexpr const char* kFrozenPattern = "^(embedding|head|layer[.][0-9]{1,4}(-[0-9]{1,4})?)$";

// For each unit in model order (embedding, layers, head), whether one of `entries` names it.
// kInvalidArgument if an entry does not match kFrozenPattern, names a layer that there is not, or
// if nothing would be left to train. Naming a unit twice is no error.
Result<std::vector<bool>> frozen_units(const std::vector<std::string>& entries, int64_t num_layers);

}  // namespace lockstep::common
