#include "runtime/tracking/mlflow_client.h"

#include <utility>

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

const char* name_of(MlflowStatus status) {
  switch (status) {
    case MlflowStatus::kRunning:
      return "RUNNING";
    case MlflowStatus::kFinished:
      return "FINISHED";
    case MlflowStatus::kFailed:
      return "FAILED";
    case MlflowStatus::kKilled:
      return "KILLED";
  }
  return "FAILED";
}

// A text at `pointer` of an answer.
Result<std::string> text_at(const json& answer, const char* pointer) {
  const json::json_pointer place(pointer);
  if (answer.contains(place) && answer.at(place).is_string()) {
    return answer.at(place).get<std::string>();
  }
  return Error{ErrorCode::kInvalidArgument, std::string("an answer without ").append(pointer),
               "check train.logging.mlflow.trackingUri"};
}

bool is_deleted(const json& owner) {
  return owner.is_object() && owner.value("lifecycle_stage", "active") == "deleted";
}

}  // namespace

MlflowClient::MlflowClient(MlflowServer server, std::stop_token stop)
    : server_(std::move(server)), stop_(std::move(stop)) {}

Result<json> MlflowClient::get(const std::string& path) const {
  return call_mlflow(server_, {.path = path}, stop_);
}

Result<json> MlflowClient::post(const std::string& path, json body) const {
  return call_mlflow(server_, {.path = path, .body = std::move(body)}, stop_);
}

Result<std::string> MlflowClient::experiment_id(const std::string& name) const {
  const std::string by_name = "experiments/get-by-name?experiment_name=" + encode_part(name);
  Result<json> found = get(by_name);
  if (!found && found.error().code == ErrorCode::kNotFound) {
    const Result<json> created = post("experiments/create", {{"name", name}});
    if (created) return text_at(*created, "/experiment_id");
    if (created.error().code != ErrorCode::kAlreadyExists) return created.error();
    found = get(by_name);  // another run was faster
  }
  if (!found) return found.error();
  if (is_deleted(found->value("experiment", json()))) {
    return Error{ErrorCode::kInvalidArgument, "the experiment '" + name + "' was deleted",
                 "restore it (mlflow experiments restore), or name another"};
  }
  return text_at(*found, "/experiment/experiment_id");
}

Result<std::string> MlflowClient::create_run(const NewMlflowRun& run) const {
  const std::string filter =
      std::string("tags.`").append(kMlflowKeyTag).append("` = '") + run.key + "'";
  ASSIGN_OR_RETURN(const json found, post("runs/search", {{"experiment_ids", {run.experiment_id}},
                                                          {"filter", filter},
                                                          {"max_results", 1}}));
  if (found.contains("runs") && !found["runs"].empty()) {
    return text_at(found, "/runs/0/info/run_id");
  }
  ASSIGN_OR_RETURN(
      const json created,
      post("runs/create", {{"experiment_id", run.experiment_id},
                           {"run_name", run.name},
                           {"start_time", run.start_ms},
                           {"tags", json::array({{{"key", kMlflowKeyTag}, {"value", run.key}}})}}));
  return text_at(created, "/run/info/run_id");
}

Result<bool> MlflowClient::has_run(const std::string& run_id) const {
  const Result<json> found = get("runs/get?run_id=" + encode_part(run_id));
  if (!found && found.error().code == ErrorCode::kNotFound) return false;
  if (!found) return found.error();
  const json::json_pointer info("/run/info");
  return found->contains(info) && !is_deleted(found->at(info));
}

Result<void> MlflowClient::set_status(const std::string& run_id, MlflowStatus status,
                                      int64_t end_ms) const {
  json body = {{"run_id", run_id}, {"status", name_of(status)}};
  if (status != MlflowStatus::kRunning) body["end_time"] = end_ms;
  RETURN_IF_ERROR(post("runs/update", std::move(body)));
  return {};
}

Result<void> MlflowClient::log_batch(const std::string& run_id, const char* part,
                                     const json& entries) const {
  RETURN_IF_ERROR(post("runs/log-batch", {{"run_id", run_id}, {part, entries}}));
  return {};
}

Result<void> MlflowClient::log_metrics(const std::string& run_id, const json& metrics) const {
  return log_batch(run_id, "metrics", metrics);
}

Result<void> MlflowClient::log_params(const std::string& run_id, const MlflowTexts& params) const {
  for (const json& part : in_parts(params, kMaxMlflowParams)) {
    RETURN_IF_ERROR(log_batch(run_id, "params", part));
  }
  return {};
}

Result<void> MlflowClient::set_tags(const std::string& run_id, const MlflowTexts& tags) const {
  for (const json& part : in_parts(shortened_tags(tags), kMaxMlflowTags)) {
    RETURN_IF_ERROR(log_batch(run_id, "tags", part));
  }
  return {};
}

}  // namespace lockstep::runtime
