// The CustomResourceDefinition of TrainingJob, made from the table of fields.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace lockstep::api {

// The whole CustomResourceDefinition object.
nlohmann::json crd();
// The text of crds/trainingjobs.yaml.
std::string crd_yaml();
// `value` as block YAML that every YAML 1.1 and 1.2 reader reads back as the same value.
std::string to_yaml(const nlohmann::json& value);

}  // namespace lockstep::api
