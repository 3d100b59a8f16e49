// The splits of a data set as `datasets` names them: "train", or a slice of one, "train[90%:]".
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "operator/convert/draft.h"

namespace lockstep::convert {

// What becomes of the names of two splits, either of which may be null. Two slices by percents that
// make up one split are what data.validationFraction is for; else a split is a file here.
Verdict take_train_split(const nlohmann::json& train, const nlohmann::json* valid);
Verdict take_valid_split(const nlohmann::json& valid, const nlohmann::json* train, Draft& draft);

}  // namespace lockstep::convert
