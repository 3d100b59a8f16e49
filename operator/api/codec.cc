#include "operator/api/codec.h"

#include "operator/api/job_fields.h"
#include "runtime/common/schema.h"
#include "runtime/common/train_config.h"

namespace lockstep::api {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

// The value of `object[key]` if it has type T, else `fallback`.
template <typename T>
T value_or(const json& object, const char* key, T fallback) {
  if (!object.is_object()) return fallback;
  const auto found = object.find(key);
  if (found == object.end()) return fallback;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<std::string>() : fallback;
  } else if constexpr (std::is_same_v<T, bool>) {
    return found->is_boolean() ? found->get<bool>() : fallback;
  } else {
    static_assert(std::is_same_v<T, int64_t>);
    return found->is_number_integer() ? found->get<int64_t>() : fallback;
  }
}

std::string text(const json& object, const char* key) {
  return value_or<std::string>(object, key, "");
}

json member(const json& object, const char* key) {
  return object.is_object() ? object.value(key, json()) : json();
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

// Precondition: `spec` passed the table's type checks outside `train`.
TrainingJobSpec decode_spec(const json& spec) {
  TrainingJobSpec result;
  result.ranks = spec.at("ranks").get<int64_t>();
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
  result.failure_policy.max_restarts = spec.at("failurePolicy").at("maxRestarts").get<int64_t>();
  result.suspend = spec.at("suspend").get<bool>();
  result.clean_pod_policy = decode_clean_pod_policy(text(spec, "cleanPodPolicy"));
  return result;
}

std::string_view to_string(ConditionStatus status) {
  switch (status) {
    case ConditionStatus::kTrue:
      return "True";
    case ConditionStatus::kFalse:
      return "False";
    case ConditionStatus::kUnknown:
      break;
  }
  return "Unknown";
}

Condition decode_condition(const json& condition) {
  const std::string status = text(condition, "status");
  return {
      .type = text(condition, "type"),
      .status = status == "True"    ? ConditionStatus::kTrue
                : status == "False" ? ConditionStatus::kFalse
                                    : ConditionStatus::kUnknown,
      .reason = text(condition, "reason"),
      .message = text(condition, "message"),
      .observed_generation = value_or<int64_t>(condition, "observedGeneration", 0),
      .last_transition_time = parse_time(text(condition, "lastTransitionTime")).value_or(Time{})};
}

std::optional<int64_t> optional_integer(const json& object, const char* key) {
  const json value = member(object, key);
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

// Cuts `value` to `max_bytes` at a character and replaces bytes that are no UTF-8: the API server
// refuses both, and a refused status would be tried for ever.
std::string clean(const std::string& value, int64_t max_bytes) {
  const std::string quoted = json(value).dump(-1, ' ', false, json::error_handler_t::replace);
  std::string result = json::parse(quoted).get<std::string>();
  if (result.size() <= static_cast<size_t>(max_bytes)) return result;
  auto cut = static_cast<size_t>(max_bytes);
  while (cut > 0 && (static_cast<unsigned char>(result[cut]) & 0xC0U) == 0x80U) --cut;
  result.resize(cut);
  return result;
}

// Texts that are empty are left out.
void put(json& object, const char* key, const std::string& value, int64_t max_bytes) {
  if (!value.empty()) object[key] = clean(value, max_bytes);
}

void put(json& object, const char* key, const std::optional<int64_t>& value) {
  if (value) object[key] = *value;
}

void put(json& object, const char* key, const std::optional<Time>& value) {
  if (value) object[key] = format_time(*value);
}

std::string fraction(int64_t part, int64_t whole) {
  return std::to_string(part).append("/").append(std::to_string(whole));
}

json encode(const Condition& condition) {
  json object = {{"type", clean(condition.type, kMaxStatusWord)},
                 {"status", to_string(condition.status)},
                 {"observedGeneration", condition.observed_generation},
                 {"lastTransitionTime", format_time(condition.last_transition_time)}};
  put(object, "reason", condition.reason, kMaxStatusWord);
  put(object, "message", condition.message, kMaxStatusMessage);
  return object;
}

json encode(const RankCounts& ranks) {
  return {{"desired", ranks.desired}, {"pending", ranks.pending},
          {"running", ranks.running}, {"succeeded", ranks.succeeded},
          {"failed", ranks.failed},   {"summary", fraction(ranks.running, ranks.desired)}};
}

json encode(const ProgressStatus& progress) {
  json object = {{"step", progress.step},
                 {"totalSteps", progress.total_steps},
                 {"tokensPerSecond", progress.tokens_per_second},
                 {"summary", fraction(progress.step, progress.total_steps)},
                 {"lastUpdateTime", format_time(progress.last_update_time)}};
  put(object, "loss", progress.loss, kMaxStatusWord);
  put(object, "etaSeconds", progress.eta_seconds);
  if (progress.eta_seconds) {
    object["eta"] = format_duration(std::chrono::seconds(*progress.eta_seconds));
  }
  put(object, "lastCheckpointStep", progress.last_checkpoint_step);
  return object;
}

json encode(const FirstFailure& failure) {
  json object = {{"attempt", failure.attempt},
                 {"rank", failure.rank},
                 {"step", failure.step},
                 {"exitCode", failure.exit_code},
                 {"time", format_time(failure.time)}};
  put(object, "node", failure.node, kMaxStatusWord);
  put(object, "reason", failure.reason, kMaxStatusWord);
  put(object, "message", failure.message, kMaxStatusMessage);
  put(object, "hint", failure.hint, kMaxStatusMessage);
  return object;
}

RankCounts decode_ranks(const json& ranks) {
  return {.desired = value_or<int64_t>(ranks, "desired", 0),
          .pending = value_or<int64_t>(ranks, "pending", 0),
          .running = value_or<int64_t>(ranks, "running", 0),
          .succeeded = value_or<int64_t>(ranks, "succeeded", 0),
          .failed = value_or<int64_t>(ranks, "failed", 0)};
}

ProgressStatus decode_progress(const json& progress) {
  return {.step = value_or<int64_t>(progress, "step", 0),
          .total_steps = value_or<int64_t>(progress, "totalSteps", 0),
          .loss = text(progress, "loss"),
          .tokens_per_second = value_or<int64_t>(progress, "tokensPerSecond", 0),
          .eta_seconds = optional_integer(progress, "etaSeconds"),
          .last_checkpoint_step = optional_integer(progress, "lastCheckpointStep"),
          .last_update_time = parse_time(text(progress, "lastUpdateTime")).value_or(Time{})};
}

FirstFailure decode_failure(const json& failure) {
  return {.attempt = value_or<int64_t>(failure, "attempt", 0),
          .rank = value_or<int64_t>(failure, "rank", 0),
          .node = text(failure, "node"),
          .step = value_or<int64_t>(failure, "step", 0),
          .exit_code = value_or<int64_t>(failure, "exitCode", 0),
          .reason = text(failure, "reason"),
          .message = text(failure, "message"),
          .hint = text(failure, "hint"),
          .time = parse_time(text(failure, "time")).value_or(Time{})};
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

json encode_status(const TrainingJobStatus& status) {
  json object = {{"observedGeneration", status.observed_generation},
                 {"attempt", status.attempt},
                 {"restarts", status.restarts},
                 {"ranks", encode(status.ranks)}};
  put(object, "state", status.state, kMaxStatusWord);
  put(object, "strategy", status.strategy, kMaxStatusWord);
  put(object, "message", status.message, kMaxStatusMessage);
  put(object, "selector", status.selector, kMaxStatusWord);
  put(object, "restartNotBefore", status.restart_not_before);
  put(object, "startTime", status.start_time);
  put(object, "completionTime", status.completion_time);
  for (const Condition& condition : status.conditions) {
    object["conditions"].push_back(encode(condition));
  }
  if (status.progress) object["progress"] = encode(*status.progress);
  if (status.first_failure) object["firstFailure"] = encode(*status.first_failure);
  return object;
}

TrainingJobStatus decode_status(const json& status) {
  TrainingJobStatus result{
      .observed_generation = value_or<int64_t>(status, "observedGeneration", 0),
      .state = text(status, "state"),
      .attempt = value_or<int64_t>(status, "attempt", 0),
      .restarts = value_or<int64_t>(status, "restarts", 0),
      .restart_not_before = parse_time(text(status, "restartNotBefore")),
      .strategy = text(status, "strategy"),
      .message = text(status, "message"),
      .selector = text(status, "selector"),
      .start_time = parse_time(text(status, "startTime")),
      .completion_time = parse_time(text(status, "completionTime")),
      .conditions = {},
      .ranks = decode_ranks(member(status, "ranks")),
      .progress = {},
      .first_failure = {}};
  const json conditions = member(status, "conditions");
  for (const auto& [index, condition] : conditions.items()) {
    result.conditions.push_back(decode_condition(condition));
  }
  if (const json progress = member(status, "progress"); progress.is_object()) {
    result.progress = decode_progress(progress);
  }
  if (const json failure = member(status, "firstFailure"); failure.is_object()) {
    result.first_failure = decode_failure(failure);
  }
  return result;
}

}  // namespace lockstep::api
