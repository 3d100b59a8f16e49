// TrainingJobStatus from and to JSON.
#include <cstdio>
#include <string_view>

#include "operator/api/codec.h"
#include "operator/api/job_fields.h"
#include "operator/api/json_read.h"

namespace lockstep::api {
namespace {

using nlohmann::json;

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
  return {{"desired", ranks.desired},
          {"pending", ranks.pending},
          {"running", ranks.running},
          {"succeeded", ranks.succeeded},
          {"failed", ranks.failed},
          {"perPod", ranks.per_pod},
          {"summary", fraction(ranks.running, ranks.desired)}};
}

json encode(const ProgressStatus& progress) {
  json object = {{"step", progress.step},
                 {"totalSteps", progress.total_steps},
                 {"summary", fraction(progress.step, progress.total_steps)},
                 {"lastUpdateTime", format_time(progress.last_update_time)}};
  if (progress.tokens_per_second > 0) object["tokensPerSecond"] = progress.tokens_per_second;
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
  put(object, "pod", failure.pod, kMaxStatusWord);
  put(object, "node", failure.node, kMaxStatusWord);
  put(object, "reason", failure.reason, kMaxStatusWord);
  put(object, "message", failure.message, kMaxStatusMessage);
  put(object, "hint", failure.hint, kMaxStatusMessage);
  return object;
}

json encode(const Goodput& goodput) {
  json object = {{"queuedSeconds", goodput.queued_seconds},
                 {"schedulingSeconds", goodput.scheduling_seconds},
                 {"startingSeconds", goodput.starting_seconds},
                 {"productiveSeconds", goodput.productive_seconds},
                 {"lostSeconds", goodput.lost_seconds},
                 {"downSeconds", goodput.down_seconds},
                 {"suspendedSeconds", goodput.suspended_seconds},
                 {"lostSteps", goodput.lost_steps},
                 {"since", format_time(goodput.since)},
                 {"attempt", goodput.attempt},
                 {"firstStep", goodput.first_step},
                 {"attemptSeconds", goodput.attempt_seconds}};
  put(object, "phase", goodput.phase, kMaxStatusWord);
  put(object, "ratio", goodput_ratio(goodput), kMaxStatusWord);
  return object;
}

json encode(const Straggler& straggler) {
  json object = {{"rank", straggler.rank}};
  put(object, "node", straggler.node, kMaxStatusWord);
  put(object, "ratio", straggler.ratio, kMaxStatusWord);
  return object;
}

Goodput decode_goodput(const json& goodput) {
  return {.phase = text(goodput, "phase"),
          .since = parse_time(text(goodput, "since")).value_or(Time{}),
          .queued_seconds = value_or<int64_t>(goodput, "queuedSeconds", 0),
          .scheduling_seconds = value_or<int64_t>(goodput, "schedulingSeconds", 0),
          .starting_seconds = value_or<int64_t>(goodput, "startingSeconds", 0),
          .productive_seconds = value_or<int64_t>(goodput, "productiveSeconds", 0),
          .lost_seconds = value_or<int64_t>(goodput, "lostSeconds", 0),
          .down_seconds = value_or<int64_t>(goodput, "downSeconds", 0),
          .suspended_seconds = value_or<int64_t>(goodput, "suspendedSeconds", 0),
          .lost_steps = value_or<int64_t>(goodput, "lostSteps", 0),
          .attempt = value_or<int64_t>(goodput, "attempt", -1),
          .first_step = value_or<int64_t>(goodput, "firstStep", 0),
          .attempt_seconds = value_or<int64_t>(goodput, "attemptSeconds", 0)};
}

Straggler decode_straggler(const json& straggler) {
  return {.rank = value_or<int64_t>(straggler, "rank", 0),
          .node = text(straggler, "node"),
          .ratio = text(straggler, "ratio")};
}

void decode_lists(const json& status, TrainingJobStatus& result) {
  const json conditions = member(status, "conditions");
  for (const auto& [index, condition] : conditions.items()) {
    result.conditions.push_back(decode_condition(condition));
  }
  const json nodes = member(status, "nodeFailures");
  for (const auto& [index, node] : nodes.items()) {
    result.node_failures.push_back(
        {.name = text(node, "name"), .count = value_or<int64_t>(node, "count", 0)});
  }
}

RankCounts decode_ranks(const json& ranks) {
  return {.desired = value_or<int64_t>(ranks, "desired", 0),
          .pending = value_or<int64_t>(ranks, "pending", 0),
          .running = value_or<int64_t>(ranks, "running", 0),
          .succeeded = value_or<int64_t>(ranks, "succeeded", 0),
          .failed = value_or<int64_t>(ranks, "failed", 0),
          .per_pod = value_or<int64_t>(ranks, "perPod", 1)};
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
          .pod = text(failure, "pod"),
          .node = text(failure, "node"),
          .step = value_or<int64_t>(failure, "step", 0),
          .exit_code = value_or<int64_t>(failure, "exitCode", 0),
          .reason = text(failure, "reason"),
          .message = text(failure, "message"),
          .hint = text(failure, "hint"),
          .time = parse_time(text(failure, "time")).value_or(Time{})};
}

}  // namespace

std::string goodput_ratio(const Goodput& goodput) {
  const int64_t whole = goodput.scheduling_seconds + goodput.starting_seconds +
                        goodput.productive_seconds + goodput.lost_seconds + goodput.down_seconds;
  if (whole <= 0) return "";
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2f",
                static_cast<double>(goodput.productive_seconds) / static_cast<double>(whole));
  return ratio;
}

json encode_status(const TrainingJobStatus& status) {
  json object = {
      {"observedGeneration", status.observed_generation},
      {"attempt", status.attempt},
      {"restarts", status.restarts},
      {"budget", {{"used", status.budget.used}, {"checkpointStep", status.budget.checkpoint_step}}},
      {"ranks", encode(status.ranks)}};
  put(object, "state", status.state, kMaxStatusWord);
  put(object, "strategy", status.strategy, kMaxStatusWord);
  put(object, "message", status.message, kMaxStatusMessage);
  put(object, "selector", status.selector, kMaxStatusWord);
  put(object, "restartNotBefore", status.restart_not_before);
  if (status.gang_releases > 0) object["gangReleases"] = status.gang_releases;
  put(object, "startTime", status.start_time);
  put(object, "completionTime", status.completion_time);
  for (const Condition& condition : status.conditions) {
    object["conditions"].push_back(encode(condition));
  }
  if (status.progress) object["progress"] = encode(*status.progress);
  if (status.first_failure) object["firstFailure"] = encode(*status.first_failure);
  if (status.straggler) object["straggler"] = encode(*status.straggler);
  if (status.queue) {
    object["queue"] = {{"name", clean(status.queue->name, kMaxStatusWord)},
                       {"podGroup", clean(status.queue->pod_group, kMaxStatusWord)}};
  }
  if (status.gang) {
    object["gang"] = {{"scheduler", clean(status.gang->scheduler, kMaxStatusWord)},
                      {"podGroup", clean(status.gang->pod_group, kMaxStatusWord)},
                      {"pods", status.gang->pods}};
  }
  for (const NodeFailures& node : status.node_failures) {
    object["nodeFailures"].push_back(
        {{"name", clean(node.name, kMaxStatusWord)}, {"count", node.count}});
  }
  if (status.goodput) object["goodput"] = encode(*status.goodput);
  return object;
}

TrainingJobStatus decode_status(const json& status) {
  const json budget = member(status, "budget");
  TrainingJobStatus result{
      .observed_generation = value_or<int64_t>(status, "observedGeneration", 0),
      .state = text(status, "state"),
      .attempt = value_or<int64_t>(status, "attempt", 0),
      .restarts = value_or<int64_t>(status, "restarts", 0),
      .budget = {.used = value_or<int64_t>(budget, "used", 0),
                 .checkpoint_step = value_or<int64_t>(budget, "checkpointStep", 0)},
      .restart_not_before = parse_time(text(status, "restartNotBefore")),
      .gang_releases = value_or<int64_t>(status, "gangReleases", 0),
      .strategy = text(status, "strategy"),
      .message = text(status, "message"),
      .selector = text(status, "selector"),
      .start_time = parse_time(text(status, "startTime")),
      .completion_time = parse_time(text(status, "completionTime")),
      .conditions = {},
      .ranks = decode_ranks(member(status, "ranks")),
      .progress = {},
      .first_failure = {},
      .straggler = {},
      .queue = {},
      .gang = {},
      .node_failures = {},
      .goodput = {}};
  decode_lists(status, result);
  if (const json progress = member(status, "progress"); progress.is_object()) {
    result.progress = decode_progress(progress);
  }
  if (const json failure = member(status, "firstFailure"); failure.is_object()) {
    result.first_failure = decode_failure(failure);
  }
  if (const json straggler = member(status, "straggler"); straggler.is_object()) {
    result.straggler = decode_straggler(straggler);
  }
  if (const json queue = member(status, "queue"); queue.is_object()) {
    result.queue = QueueStatus{text(queue, "name"), text(queue, "podGroup")};
  }
  if (const json gang = member(status, "gang"); gang.is_object()) {
    result.gang = GangStatus{text(gang, "scheduler"), text(gang, "podGroup"),
                             value_or<int64_t>(gang, "pods", 0)};
  }
  if (const json goodput = member(status, "goodput"); goodput.is_object()) {
    result.goodput = decode_goodput(goodput);
  }
  return result;
}

}  // namespace lockstep::api
