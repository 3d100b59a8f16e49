// The JSON schema of a manifest, for editors that complete and check YAML.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep::api {

// JSON Schema (draft 2020-12) of a TrainingJob, from the table of fields as the CRD is. Unlike an
// API server it refuses keys that nobody knows. What it cannot say (relations of fields, the pod
// template) `lockstep validate` does.
nlohmann::json editor_schema();

}  // namespace lockstep::api
