// `--set path=value`: overrides of a manifest's spec.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/problem.h"

namespace lockstep::api {

// Applies overrides to `spec`, in order.
//   spec: written; objects and list items on the way are created.
//   sets: "path=value", path starting at spec ("ranks", "train.steps", "inputs[0].name"; a key that
//   is
//         no identifier in brackets: "resources.limits[nvidia.com/gpu]"), value YAML; an empty
//         value removes the field.
//   paths: the full paths that were set, appended.
// Returns one problem for every override that could not be applied, at its path; the others apply.
common::Problems apply_overrides(const std::vector<std::string>& sets, nlohmann::json& spec,
                                 std::vector<std::string>& paths);

}  // namespace lockstep::api
