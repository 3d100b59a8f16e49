// Parts of a pod of another operator, put where a TrainingJob has them: spec's own fields, else its
// template.
#pragma once

#include "operator/convert/table.h"

namespace lockstep::convert {

// Puts the key into spec.template at `path`, "spec.nodeSelector".
Take into_template(std::string path);
// Puts the key into the template's container `trainer`.
Take into_trainer(std::string key);

// A list of {name, value}: plain values go to spec.env, sources of values to the template's
// container; what the operator sets itself is left out, and named.
std::optional<Verdict> take_env(const nlohmann::json& value, Draft& draft);

// What a pod of a job needs. With one rank in a pod they are spec.resources, else the template's.
std::optional<Verdict> take_pod_resources(const nlohmann::json& value, Draft& draft);

// The rows of a container below `root`, of its pod below `pod`, and of the pod's own metadata.
Table container_rows(const std::string& root);
Table pod_rows(const std::string& pod);

// A command that only the user knows, and an image for it, where the source has none.
void fill_in_program(Draft& draft, const char* why);

}  // namespace lockstep::convert
