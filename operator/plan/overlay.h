// A pod template laid over a pod of ours.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep::plan {

// `pod` with the template's metadata and spec laid over it. Maps are merged, the template's values
// winning. Of the lists that a pod of ours has, containers, volumes and pull secrets are merged by
// name, mounts by path, ports by number and protocol; a variable of the environment replaces that
// of its name; preferences of affinity are added. Every other list replaces ours (a command is one
// thing). New items come last, so `trainer` stays the first container.
//   pod_template: passed api::check_template(), else what it replaces may be what makes the gang.
// Pure; total on any JSON; laying the same template over once more changes nothing.
nlohmann::json lay_over(nlohmann::json pod, const nlohmann::json& pod_template);

}  // namespace lockstep::plan
