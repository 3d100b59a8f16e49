#include "operator/convert/trackers.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr const char* kSection = "train.logging.mlflow";
constexpr const char* kAddress = "MLFLOW_TRACKING_URI";

std::string mlflow_field(const char* name) {
  return std::string(kSection).append(".").append(name);
}

Take mlflow_variable(const char* name) {
  return [name](const json& value, Draft& draft) -> std::optional<Verdict> {
    if (draft.text("log") != "mlflow") return mapped("of no effect: log is not mlflow");
    return draft.map(mlflow_field(name), value);
  };
}

}  // namespace

Verdict take_named_tracker(const json& value, Draft& draft) {
  if (is_off(value)) return mapped("off, as here");
  if (!value.is_string()) return broken("must be the name of a tracker, found " + value.dump());
  if (value == "tensorboard") return draft.map("train.logging.tensorboard", true);
  if (value != "mlflow") return change_tracker(draft);
  const std::string field = mlflow_field("trackingUri");
  const json* address = draft.key(kAddress);
  if (address == nullptr || !misfit(field, *address).text.empty()) {
    draft.fill_in(field, "http://mlflow:5000", std::string("the server in ").append(kAddress));
  }
  return {.field = kSection, .text = "rank 0 tells the server itself"};
}

Verdict change_tracker(Draft& draft) {
  return draft.change("train.logging.tensorboard", true,
                      "TensorBoard files and metrics.jsonl in the output instead");
}

Table mlflow_variables() {
  return {{kAddress, mlflow_variable("trackingUri")},
          {"MLFLOW_EXPERIMENT_NAME", mlflow_variable("experiment")}};
}

}  // namespace lockstep::convert
