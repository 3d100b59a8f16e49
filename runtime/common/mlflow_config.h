// Where a run tells MLflow of itself: train.logging.mlflow of a job.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace lockstep::common {

struct MlflowConfig {
  std::string tracking_uri;  // http(s)://HOST[:PORT][/PATH]
  std::string experiment;    // its name; created where there is none
  std::string run_name;      // empty: the job's
};

// Of a `train` that passed check_train(), with defaults filled in; nothing if the job names none.
std::optional<MlflowConfig> decode_mlflow(const nlohmann::json& train);

}  // namespace lockstep::common
