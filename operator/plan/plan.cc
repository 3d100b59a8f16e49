// Note [An attempt is recorded before it is created]
// The number and the world size of an attempt are written to the status in a plan that touches
// nothing. Pods, ConfigMap and environment are made only from what is recorded. So whatever a crash
// leaves behind was made for the recorded attempt, or for an older one and is deleted; a change of
// spec.ranks in between cannot mix two sizes in one gang.
//
// Note [Stopping in good order]
// Suspension, scaling and evictions stop the gang by SIGTERM: all ranks save the same step. Until
// they ended, or their grace period did, nobody is killed and no new attempt is made. A stop that
// has begun is finished even if the wish for it is withdrawn.
#include "operator/plan/plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "operator/api/job_check.h"
#include "operator/plan/children.h"
#include "operator/plan/failure.h"
#include "operator/plan/gang.h"
#include "operator/plan/loss.h"
#include "operator/plan/render.h"
#include "operator/plan/situation.h"
#include "operator/plan/status.h"

namespace lockstep::plan {
namespace {

using api::Time;
using api::TrainingJob;
using api::TrainingJobStatus;
using std::chrono::seconds;

constexpr seconds kProgressPoll{15};      // the period of status.progress
constexpr seconds kFirstProgressPoll{2};  // until rank 0 answered once
constexpr seconds kNameTakenPoll{30};
constexpr seconds kNextRound{1};  // if the write of the status is not seen coming back

bool has_begun(const TrainingJobStatus& status) {
  return status.start_time.has_value();
}

// Finished: what is left of the gang goes as cleanPodPolicy says; left-overs of older attempts
// always.
Plan clean_up(const Situation& s, Plan next) {
  const api::CleanPodPolicy policy = s.job.spec.clean_pod_policy;
  for (const PodView* pod : s.gang.ranks) {
    if (pod == nullptr || policy == api::CleanPodPolicy::kNone) continue;
    if (policy == api::CleanPodPolicy::kRunning && has_ended(*pod)) continue;
    delete_pod(next, pod, kShortGrace);
  }
  delete_stale_pods(s, next);
  return next;
}

std::string describe_problems(const common::Problems& problems) {
  constexpr int kMaxShown = 3;
  std::string text;
  int shown = 0;
  for (const common::Problem& problem : problems) {
    if (problem.warning || shown == kMaxShown) continue;
    if (shown++ > 0) text += "; ";
    text += problem.path + ": " + problem.message;
    if (!problem.hint.empty()) text += " (" + problem.hint + ")";
  }
  return text;
}

// Writes Accepted, once per generation: the answer depends on the spec alone.
void judge_spec(const Situation& s, Plan& next) {
  next.status.observed_generation = s.job.meta.generation;
  next.status.selector = pod_selector(s.job.meta.name);
  const api::Condition* known = find_condition(s.job.status, kAccepted);
  if (known != nullptr && known->observed_generation == s.job.meta.generation) return;
  const common::Problems problems = api::check_job(s.job);
  if (!common::has_errors(problems)) {
    set_condition(next.status, {.type = kAccepted, .value = true, .reason = "Valid"}, s.now);
    return;
  }
  const std::string text = describe_problems(problems);
  set_condition(next.status, {.type = kAccepted, .reason = "InvalidSpec", .message = text}, s.now);
  next.events.push_back({.warning = true, .reason = "InvalidSpec", .message = text});
}

// The world size that an attempt may have: that of the spec, or of the present attempt if only the
// change was refused. Nothing if the job cannot run at all.
std::optional<int64_t> allowed_ranks(const Situation& s, const TrainingJobStatus& status) {
  if (is_true(status, kAccepted)) return s.job.spec.ranks;
  if (!has_begun(status)) return std::nullopt;
  TrainingJob as_it_runs = s.job;
  as_it_runs.spec.ranks = status.ranks.desired;
  if (common::has_errors(api::check_job(as_it_runs))) return std::nullopt;
  return status.ranks.desired;
}

// Records a new attempt; see Note [An attempt is recorded before it is created].
void record_attempt(TrainingJobStatus& status, int64_t number, int64_t ranks,
                    std::string_view reason, Time now) {
  status.attempt = number;
  status.ranks = {.desired = ranks, .pending = ranks};
  status.restart_not_before.reset();
  if (!has_begun(status)) status.start_time = now;
  set_condition(status, {.type = kScheduled, .reason = std::string(reason)}, now);
  set_condition(status, {.type = kRunning, .reason = std::string(reason)}, now);
  status.state = reason == kRestartingReason ? "Restarting" : "Pending";
}

// A pod of ours belongs to a later attempt than the status says, so the status is old or was
// edited. Attempts never go back: their names would meet again.
Plan catch_up(const Situation& s, Plan next) {
  record_attempt(next.status, s.gang.newest_attempt, next.status.ranks.desired, kStartingReason,
                 s.now);
  next.requeue_after = kNextRound;
  return next;
}

// Nothing runs and nothing may: says why.
Plan refuse(const Situation&, Plan next) {
  const api::Condition* accepted = find_condition(next.status, kAccepted);
  next.status.state = "Invalid";
  next.status.message = accepted == nullptr ? "" : accepted->message;
  return next;
}

// The first attempt of a job, or the next one of a suspended job.
Plan begin(const Situation& s, Plan next, std::optional<int64_t> ranks) {
  if (!ranks) return refuse(s, std::move(next));
  const bool resumes = is_true(next.status, kSuspended);
  const int64_t number = next.status.attempt + (has_begun(next.status) ? 1 : 0);
  record_attempt(next.status, number, *ranks, kStartingReason, s.now);
  next.status.message.clear();
  if (resumes) {
    set_condition(next.status, {.type = kSuspended, .reason = "Resumed"}, s.now);
    next.events.push_back({.reason = "Resumed", .message = "attempt " + std::to_string(number)});
  }
  next.requeue_after = kNextRound;
  return next;
}

bool is_stopping(const TrainingJobStatus& status) {
  return has_reason(status, kRunning, kSuspendingReason) ||
         has_reason(status, kRunning, kScalingReason);
}

bool wants_stop(const Situation& s, std::optional<int64_t> ranks) {
  const TrainingJobStatus& status = s.job.status;
  if (s.job.spec.suspend) return true;
  if (is_true(status, kSuspended)) return false;
  return is_stopping(status) || (has_begun(status) && ranks && *ranks != status.ranks.desired);
}

Plan suspended(const Situation& s, Plan next) {
  if (!is_true(next.status, kSuspended)) {
    next.events.push_back({.reason = "Suspended", .message = "all ranks stopped"});
  }
  set_condition(next.status, {.type = kSuspended, .value = true, .reason = "Suspended"}, s.now);
  set_condition(next.status, {.type = kScheduled, .reason = "Suspended"}, s.now);
  set_condition(next.status, {.type = kRunning, .reason = "Suspended"}, s.now);
  next.status.ranks = {.desired = next.status.ranks.desired};
  next.status.restart_not_before.reset();
  next.status.state = "Suspended";
  next.status.message.clear();
  return next;
}

// The gang stopped for another size, or for a suspension that was withdrawn: on with a new attempt.
Plan stopped(const Situation& s, Plan next, std::optional<int64_t> ranks) {
  if (!ranks) return refuse(s, std::move(next));
  if (*ranks != next.status.ranks.desired) {
    next.events.push_back({.reason = "Scaled",
                           .message = "from " + std::to_string(next.status.ranks.desired) + " to " +
                                      std::to_string(*ranks) + " ranks"});
  }
  if (find_condition(next.status, kSuspended) != nullptr) {
    set_condition(next.status, {.type = kSuspended, .reason = "Resumed"}, s.now);
  }
  record_attempt(next.status, next.status.attempt + 1, *ranks, kStartingReason, s.now);
  next.status.message.clear();
  next.requeue_after = kNextRound;
  return next;
}

// Suspends or scales; see Note [Stopping in good order].
Plan stop(const Situation& s, Plan next, std::optional<int64_t> ranks) {
  const bool suspends = s.job.spec.suspend;
  const bool has_stopped = !has_live_pods(s.gang, s.now);
  merge_progress(next.status, s.seen);
  if (has_stopped && !suspends) return stopped(s, std::move(next), ranks);

  delete_stale_pods(s, next);
  for (const PodView* pod : s.gang.ranks) {
    // A rank that ended by itself stays as it is until the others stopped: how it ended counts.
    if (pod != nullptr && (has_stopped || !has_ended(*pod))) {
      delete_pod(next, pod, grace_period(s.job));
    }
  }
  if (has_stopped) return suspended(s, std::move(next));
  const char* reason = suspends ? kSuspendingReason : kScalingReason;
  count_ranks(next.status, s.gang);
  set_condition(next.status, {.type = kRunning, .reason = reason}, s.now);
  if (suspends) set_condition(next.status, {.type = kSuspended, .reason = reason}, s.now);
  next.status.state = suspends ? "Suspending" : "Restarting";
  next.status.message = "waiting for the ranks to save a checkpoint and stop";
  requeue_for_deletions(s, next);
  return next;
}

void finish(TrainingJobStatus& status, const Gang& gang, Time now) {
  count_ranks(status, gang);
  set_condition(status, {.type = kRunning, .reason = "Finished"}, now);
  status.restart_not_before.reset();
  status.completion_time = now;
}

Plan succeed(const Situation& s, Plan next) {
  merge_progress(next.status, s.seen);
  finish(next.status, s.gang, s.now);
  if (next.status.progress) {  // the last poll was before the last step
    next.status.progress->step = next.status.progress->total_steps;
    next.status.progress->eta_seconds = 0;
  }
  set_condition(next.status, {.type = kSucceeded, .value = true, .reason = "AllRanksSucceeded"},
                s.now);
  next.status.state = "Succeeded";
  next.status.message.clear();
  next.events.push_back({.reason = "Succeeded", .message = "all ranks succeeded"});
  return next;
}

api::FirstFailure recorded(const RankFailure& cause, int64_t attempt, Time now) {
  return {.attempt = attempt,
          .rank = cause.rank,
          .node = cause.node,
          .step = cause.step,
          .exit_code = cause.exit_code,
          .reason = cause.reason,
          .message = cause.message,
          .hint = cause.hint,
          .time = cause.finished_at.value_or(now)};
}

Plan fail(const Situation& s, Plan next, const std::string& reason, const std::string& message) {
  finish(next.status, s.gang, s.now);
  set_condition(next.status, {.type = kFailed, .value = true, .reason = reason, .message = message},
                s.now);
  next.status.state = "Failed";
  next.status.message = message;
  next.events.push_back({.warning = true, .reason = "Failed", .message = message});
  return next;
}

// The verdict on a lost rank: another attempt of the whole gang, or the end.
Plan restart_or_fail(const Situation& s, Plan next, const RankFailure& cause) {
  TrainingJobStatus& status = next.status;
  merge_progress(status, s.seen);
  status.first_failure = recorded(cause, status.attempt, s.now);
  std::string text = summarize(*status.first_failure);
  if (!cause.hint.empty()) text += " (" + cause.hint + ")";
  if (cause.verdict == Verdict::kFail) return fail(s, std::move(next), cause.reason, text);

  const int64_t max_restarts = s.job.spec.failure_policy.max_restarts;
  const bool is_charged = cause.verdict == Verdict::kRestart;
  if (is_charged && status.restarts >= max_restarts) {
    text += "; no restart is left of " + std::to_string(max_restarts);
    return fail(s, std::move(next), "RestartBudgetSpent", text);
  }
  if (is_charged) ++status.restarts;
  const seconds delay = is_charged ? restart_backoff(status.restarts) : kFreeRestartDelay;
  record_attempt(status, status.attempt + 1, status.ranks.desired, kRestartingReason, s.now);
  status.restart_not_before = s.now + delay;
  status.message = "restarting after " + text;
  next.events.push_back({.warning = true,
                         .reason = "Restarting",
                         .message = text + "; attempt " + std::to_string(status.attempt) + " in " +
                                    std::to_string(delay.count()) + " s"});
  next.requeue_after = delay;
  return next;
}

// Creates the gang unless its backoff lasts or a name that it needs is taken.
void complete_gang(const Situation& s, Plan& next, std::optional<int64_t> ranks) {
  TrainingJobStatus& status = next.status;
  if (status.restart_not_before && s.now < *status.restart_not_before) {
    requeue_within(next, *status.restart_not_before - s.now);
    return;
  }
  status.restart_not_before.reset();
  if (!s.gang.taken_name.empty()) {
    requeue_within(next, kNameTakenPoll);
    return;
  }
  if (ranks) create_missing(s, next);
}

void tell_taken_name(const Situation& s, Plan& next) {
  if (s.gang.taken_name.empty() || is_true(next.status, kScheduled)) return;
  const std::string text = "another object has the name " + s.gang.taken_name;
  next.status.message = text;
  if (has_reason(s.job.status, kScheduled, "NameTaken")) return;
  next.events.push_back({.warning = true, .reason = "NameTaken", .message = text});
}

// The gang as it should be: left-overs go, what is missing comes, the status tells.
Plan tend(const Situation& s, Plan next, std::optional<int64_t> ranks,
          const std::optional<Loss>& loss) {
  delete_stale_pods(s, next);
  delete_old_config_maps(s, next);
  if (loss) {
    requeue_within(next, *loss->wait_until - s.now);
  } else {
    complete_gang(s, next, ranks);
  }
  const bool was_running = is_true(s.job.status, kRunning);
  describe_gang(next.status, s.gang, s.now);
  tell_taken_name(s, next);
  merge_progress(next.status, s.seen);
  if (!was_running && is_true(next.status, kRunning)) {
    next.events.push_back({.reason = "Running", .message = "all ranks run"});
  }
  if (next.status.ranks.running > 0 && s.job.spec.command.empty()) {
    requeue_within(next, next.status.progress ? kProgressPoll : kFirstProgressPoll);
  }
  requeue_for_deletions(s, next);
  return next;
}

}  // namespace

Plan plan(const TrainingJob& job, const Observation& seen, const Settings& settings, Time now) {
  Plan next = {.actions = {}, .status = job.status, .events = {}, .requeue_after = {}};
  if (job.meta.deletion_time) return next;  // owner references clean up

  const Situation s = {job, seen, settings, now, gather(job, seen)};
  if (is_finished(job.status)) return clean_up(s, std::move(next));
  judge_spec(s, next);
  if (s.gang.newest_attempt > job.status.attempt) return catch_up(s, std::move(next));
  if (has_succeeded(s.gang)) return succeed(s, std::move(next));

  const std::optional<int64_t> ranks = allowed_ranks(s, next.status);
  if (wants_stop(s, ranks)) return stop(s, std::move(next), ranks);
  if (!has_begun(next.status) || is_true(next.status, kSuspended)) {
    return begin(s, std::move(next), ranks);
  }
  const std::optional<Loss> loss = find_loss(s);
  if (loss && !loss->wait_until) return restart_or_fail(s, std::move(next), loss->cause);
  return tend(s, std::move(next), ranks, loss);
}

}  // namespace lockstep::plan
