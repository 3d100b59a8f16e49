#include "operator/api/codec.h"

#include "operator/api/job_fields.h"
#include "operator/api/json_read.h"
#include "runtime/common/schema.h"
#include "runtime/common/train_config.h"

namespace lockstep::api {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

std::optional<std::chrono::seconds> optional_seconds(const json& object, const char* key) {
  const std::optional<int64_t> count = optional_integer(object, key);
  return count ? std::optional(std::chrono::seconds(*count)) : std::nullopt;
}

ObjectMeta decode_meta(const json& metadata) {
  ObjectMeta meta{.name = text(metadata, "name"),
                  .ns = text(metadata, "namespace"),
                  .uid = text(metadata, "uid"),
                  .resource_version = text(metadata, "resourceVersion"),
                  .generation = value_or<int64_t>(metadata, "generation", 0),
                  .creation_time = parse_time(text(metadata, "creationTimestamp")),
                  .deletion_time = parse_time(text(metadata, "deletionTimestamp")),
                  .labels = {}};
  const json labels = member(metadata, "labels");
  for (const auto& [key, value] : labels.items()) {
    if (value.is_string()) meta.labels[key] = value.get<std::string>();
  }
  return meta;
}

CleanPodPolicy decode_clean_pod_policy(const std::string& name) {
  if (name == "All") return CleanPodPolicy::kAll;
  return name == "None" ? CleanPodPolicy::kNone : CleanPodPolicy::kRunning;
}

RuleAction decode_action(const std::string& name) {
  if (name == "RestartFree") return RuleAction::kRestartFree;
  return name == "Fail" ? RuleAction::kFail : RuleAction::kRestart;
}

FailurePolicy decode_failure_policy(const json& policy) {
  FailurePolicy result{
      .max_restarts = policy.at("maxRestarts").get<int64_t>(),
      .stall_timeout = std::chrono::seconds(policy.at("stallTimeoutSeconds").get<int64_t>()),
      .rules = {}};
  for (const json& rule : policy.value("rules", json::array())) {
    result.rules.push_back({.exit_codes = rule.value("exitCodes", std::vector<int64_t>()),
                            .reasons = rule.value("reasons", std::vector<std::string>()),
                            .action = decode_action(text(rule, "action"))});
  }
  return result;
}

// Precondition: `spec` passed the table's type checks outside `train`.
TrainingJobSpec decode_spec(const json& spec) {
  TrainingJobSpec result;
  result.ranks = spec.at("ranks").get<int64_t>();
  result.ranks_per_pod = spec.at("ranksPerPod").get<int64_t>();
  result.image = spec.value("image", "");
  for (const json& secret : spec.value("imagePullSecrets", json::array())) {
    result.image_pull_secrets.push_back(text(secret, "name"));
  }
  result.command = spec.value("command", std::vector<std::string>());
  result.args = spec.value("args", std::vector<std::string>());
  for (const json& variable : spec.value("env", json::array())) {
    result.env[text(variable, "name")] = text(variable, "value");
  }
  result.resources = spec.value("resources", json::object());
  result.inputs = spec.value("inputs", json::array());
  result.output = member(spec, "output");
  if (spec.contains("train")) {
    result.train = common::resolve_train(spec.at("train"), result.ranks).train;
  }
  result.failure_policy = decode_failure_policy(spec.at("failurePolicy"));
  const json& scheduling = spec.at("scheduling");
  result.scheduling = {
      .gang_scheduler = parse_gang_scheduler(text(scheduling, "gangScheduler")),
      .gang_timeout = std::chrono::seconds(scheduling.at("gangTimeoutSeconds").get<int64_t>())};
  result.managed_by = spec.value("managedBy", "");
  result.suspend = spec.at("suspend").get<bool>();
  result.active_deadline = optional_seconds(spec, "activeDeadlineSeconds");
  result.ttl_after_finished = optional_seconds(spec, "ttlSecondsAfterFinished");
  result.clean_pod_policy = decode_clean_pod_policy(text(spec, "cleanPodPolicy"));
  result.pod_template = spec.value("template", json::object());
  return result;
}

}  // namespace

Result<TrainingJob> decode_job(const json& object) {
  TrainingJob job;
  job.meta = decode_meta(member(object, "metadata"));
  if (job.meta.name.empty()) {
    return Error{ErrorCode::kInvalidArgument, "metadata.name: is required"};
  }
  const common::Checked checked =
      common::check_and_default(spec_fields(), member(object, "spec"), "spec");
  try {
    job.spec = decode_spec(checked.value);
  } catch (const json::exception& error) {
    for (const common::Problem& problem : checked.problems) {
      if (!common::is_within(problem.path, "spec.train")) {
        return Error{ErrorCode::kInvalidArgument, common::to_string(problem, "")};
      }
    }
    return Error{ErrorCode::kInternal, std::string("spec: ") + error.what()};
  }
  job.status = decode_status(member(object, "status"));
  return job;
}

}  // namespace lockstep::api
