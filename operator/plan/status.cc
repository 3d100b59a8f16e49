#include "operator/plan/status.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "operator/api/codec.h"

namespace lockstep::plan {
namespace {

using api::Condition;
using api::ConditionStatus;
using api::Time;
using api::TrainingJobStatus;

constexpr std::chrono::seconds kProgressPeriod{15};

std::string summary_of(const TrainingJobStatus& status) {
  return std::to_string(status.ranks.running) + "/" + std::to_string(status.ranks.desired) +
         " ranks running";
}

// The first rank that cannot start and why, e.g. "rank 3: ImagePullBackOff".
std::string obstacle_of(const Gang& gang) {
  for (std::size_t index = 0; index < gang.pods.size(); ++index) {
    const PodView* pod = gang.pods[index];
    if (pod != nullptr && pod->phase == PodPhase::kPending && !pod->waiting_reason.empty()) {
      return "rank " + std::to_string(gang.first_rank(index)) + ": " + pod->waiting_reason;
    }
  }
  return {};
}

std::string message_of(const TrainingJobStatus& status, const Gang& gang) {
  if (is_true(status, kRunning)) return {};
  std::string message = summary_of(status);
  const std::string obstacle = obstacle_of(gang);
  if (!obstacle.empty()) message += "; " + obstacle;
  if (has_reason(status, kRunning, kRestartingReason) && status.first_failure) {
    message += "; restarting after " + summarize(*status.first_failure);
  }
  return message;
}

std::string state_of(const TrainingJobStatus& status) {
  if (is_true(status, kRunning)) return "Running";
  if (has_reason(status, kRunning, kRestartingReason)) return "Restarting";
  return status.ranks.running > 0 ? "Starting" : "Pending";
}

// The gang stays Scheduled and Running once it was, until its attempt ends: a rank that vanishes
// later is a loss, not a rank that has yet to come (Note [A vanished rank]).
void latch(TrainingJobStatus& status, const char* type, bool holds, const std::string& reason,
           Time now) {
  if (holds || is_true(status, type)) {
    const std::string all = std::string("AllRanks") + type;
    set_condition(status, {.type = type, .value = true, .reason = all}, now);
  } else {
    set_condition(status, {.type = type, .reason = reason}, now);
  }
}

}  // namespace

const Condition* find_condition(const TrainingJobStatus& status, std::string_view type) {
  const auto found = std::find_if(status.conditions.begin(), status.conditions.end(),
                                  [&](const Condition& c) { return c.type == type; });
  return found == status.conditions.end() ? nullptr : &*found;
}

bool is_true(const TrainingJobStatus& status, std::string_view type) {
  const Condition* condition = find_condition(status, type);
  return condition != nullptr && condition->status == ConditionStatus::kTrue;
}

bool has_reason(const TrainingJobStatus& status, std::string_view type, std::string_view reason) {
  const Condition* condition = find_condition(status, type);
  return condition != nullptr && condition->reason == reason;
}

bool is_finished(const TrainingJobStatus& status) {
  return is_true(status, kSucceeded) || is_true(status, kFailed);
}

bool is_stopping(const TrainingJobStatus& status) {
  return has_reason(status, kRunning, kSuspendingReason) ||
         has_reason(status, kRunning, kScalingReason);
}

void set_condition(TrainingJobStatus& status, const ConditionUpdate& update, Time now) {
  const ConditionStatus value = update.value ? ConditionStatus::kTrue : ConditionStatus::kFalse;
  auto found = std::find_if(status.conditions.begin(), status.conditions.end(),
                            [&](const Condition& c) { return c.type == update.type; });
  if (found == status.conditions.end()) {
    status.conditions.push_back({.type = update.type});
    found = std::prev(status.conditions.end());
  }
  if (found->status != value) found->last_transition_time = now;
  found->status = value;
  found->reason = update.reason;
  found->message = update.message;
  found->observed_generation = status.observed_generation;
}

void count_ranks(TrainingJobStatus& status, const Gang& gang) {
  api::RankCounts counts = {.desired = status.ranks.desired, .per_pod = status.ranks.per_pod};
  for (const PodView* pod : gang.pods) {
    if (pod == nullptr) continue;
    if (is_succeeded(gang, pod)) {
      counts.succeeded += gang.ranks_per_pod;
    } else if (pod->phase == PodPhase::kFailed) {
      counts.failed += gang.ranks_per_pod;
    } else if (pod->phase == PodPhase::kRunning) {
      counts.running += gang.ranks_per_pod;
    }
  }
  counts.pending = gang.world_size() - counts.running - counts.succeeded - counts.failed;
  status.ranks = counts;
}

void describe_gang(TrainingJobStatus& status, const Gang& gang, Time now) {
  count_ranks(status, gang);
  const api::RankCounts& ranks = status.ranks;
  const std::string waiting = gang.taken_name.empty() ? kWaitingForNodes : "NameTaken";
  latch(status, kScheduled, is_scheduled(gang), waiting, now);

  const bool runs = ranks.running > 0 && ranks.running + ranks.succeeded == gang.world_size();
  const bool restarts = has_reason(status, kRunning, kRestartingReason);
  latch(status, kRunning, runs, restarts ? kRestartingReason : kStartingReason, now);

  status.state = state_of(status);
  status.message = message_of(status, gang);
}

api::ProgressStatus progress_status(const common::JobProgress& progress,
                                    const std::optional<api::ProgressStatus>& known, Time now) {
  api::ProgressStatus status;
  status.step = progress.step;
  status.total_steps = progress.total_steps;
  status.loss = api::format_loss(progress.loss);
  status.tokens_per_second = static_cast<int64_t>(progress.tokens_per_second);
  status.eta_seconds = progress.eta_seconds;
  status.last_checkpoint_step = progress.last_checkpoint_step;
  if (known) {
    status.last_update_time = known->last_update_time;
    if (status == *known) return status;
  }
  status.last_update_time = now;
  return status;
}

void merge_progress(TrainingJobStatus& status, const Observation& seen) {
  if (!seen.strategy.empty()) status.strategy = seen.strategy;
  if (!seen.progress || status.progress == seen.progress) return;
  if (status.progress) {
    const bool is_due =
        seen.progress->last_update_time - status.progress->last_update_time >= kProgressPeriod;
    const bool is_last = seen.progress->step == seen.progress->total_steps &&
                         status.progress->step != seen.progress->step;
    if (!is_due && !is_last) return;
  }
  status.progress = seen.progress;
}

void take_last_progress(TrainingJobStatus& status, const Observation& seen) {
  if (!seen.strategy.empty()) status.strategy = seen.strategy;
  if (seen.progress) status.progress = seen.progress;
}

void quiet_progress(TrainingJobStatus& status) {
  if (!status.progress) return;
  status.progress->tokens_per_second = 0;
  status.progress->eta_seconds.reset();
}

bool report_straggler(TrainingJobStatus& status, const Observation& seen, const Gang& gang,
                      Time now) {
  const bool is_rank =
      seen.straggler && seen.straggler->rank >= 0 && seen.straggler->rank < gang.world_size();
  if (!is_rank && seen.knows_stragglers) clear_straggler(status, "Recovered", now);
  if (!is_rank) {
    if (status.straggler) status.message = summarize(*status.straggler);
    return false;
  }
  const bool is_new = !status.straggler || status.straggler->rank != seen.straggler->rank;
  if (is_new) {  // its ratio changes all the time: no reason to write
    const PodView* pod = gang.pod_of(seen.straggler->rank);
    char ratio[32];
    std::snprintf(ratio, sizeof ratio, "%.2f", seen.straggler->ratio);
    status.straggler = api::Straggler{
        .rank = seen.straggler->rank, .node = pod == nullptr ? "" : pod->node, .ratio = ratio};
  }
  status.message = summarize(*status.straggler);
  set_condition(
      status, {.type = kStraggling, .value = true, .reason = "SlowRank", .message = status.message},
      now);
  return is_new;
}

void clear_straggler(TrainingJobStatus& status, const std::string& reason, Time now) {
  status.straggler.reset();
  if (is_true(status, kStraggling)) {
    set_condition(status, {.type = kStraggling, .reason = reason}, now);
  }
}

std::string summarize(const api::Straggler& straggler) {
  std::string text = "rank " + std::to_string(straggler.rank);
  if (!straggler.node.empty()) text += " on " + straggler.node;
  return text + " is slow: " + straggler.ratio + " times the median step time";
}

std::string summarize(const api::FirstFailure& failure) {
  std::string text = "rank " + std::to_string(failure.rank);
  if (!failure.node.empty()) text += " on " + failure.node;
  return text + ": " + failure.reason + ": " + failure.message;
}

}  // namespace lockstep::plan
