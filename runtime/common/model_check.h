// What is wrong with a job's model although each of its fields is right.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace lockstep::common {

struct ModelProblem {
  std::string key;  // of model.config
  std::string message;
  std::string hint;
};

// What decode_model_json() refuses of the `model.config` of a training configuration. Nothing where
// the table of fields has a problem with it already, or there is none.
std::optional<ModelProblem> find_model_problem(const nlohmann::json& train);

}  // namespace lockstep::common
