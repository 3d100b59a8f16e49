#include "runtime/common/mlflow_config.h"

namespace lockstep::common {

std::optional<MlflowConfig> decode_mlflow(const nlohmann::json& train) {
  const nlohmann::json::json_pointer pointer("/logging/mlflow");
  if (!train.is_object() || !train.contains(pointer)) return std::nullopt;
  const nlohmann::json& mlflow = train.at(pointer);
  if (!mlflow.is_object()) return std::nullopt;
  return MlflowConfig{.tracking_uri = mlflow.at("trackingUri").get<std::string>(),
                      .experiment = mlflow.value("experiment", "Default"),
                      .run_name = mlflow.value("runName", "")};
}

}  // namespace lockstep::common
