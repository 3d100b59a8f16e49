// What of a job's training changed since a checkpoint was written: pure.
#pragma once

#include <string>

namespace lockstep::runtime {

// The first field that decides which numbers a step computes and is another than then, as
// "train.PATH was THEN and is NOW"; empty if there is none.
//   then_json, now_json: spec.train, complete.
std::string first_difference(const std::string& then_json, const std::string& now_json);

// The settings of spec.train that are others than then, as "path then -> now", sorted by path.
// Arguments as above; throws nlohmann::json::parse_error if one is no JSON.
std::string changed_settings(const std::string& then_json, const std::string& now_json);

}  // namespace lockstep::runtime
