#include "operator/plan/plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "operator/api/job_check.h"
#include "operator/plan/attempt.h"
#include "operator/plan/children.h"
#include "operator/plan/deadline.h"
#include "operator/plan/failure.h"
#include "operator/plan/finish.h"
#include "operator/plan/gang.h"
#include "operator/plan/goodput.h"
#include "operator/plan/half_gang.h"
#include "operator/plan/loss.h"
#include "operator/plan/names.h"
#include "operator/plan/pod_group.h"
#include "operator/plan/queue.h"
#include "operator/plan/restart.h"
#include "operator/plan/situation.h"
#include "operator/plan/stall.h"
#include "operator/plan/status.h"
#include "operator/plan/stop.h"

namespace lockstep::plan {
namespace {

using api::Time;
using api::TrainingJob;
using api::TrainingJobStatus;
using std::chrono::seconds;

constexpr seconds kProgressPoll{15};      // the period of status.progress
constexpr seconds kFirstProgressPoll{2};  // until rank 0 answered once
constexpr seconds kUnreadyPoll{2};        // whether ranks on a node that is not ready answer
constexpr seconds kNameTakenPoll{30};
constexpr seconds kQueuePoll{30};
constexpr const char* kTemplateChanged = "TemplateChanged";

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

// A gang that has its nodes keeps the template that it began with.
void tell_changed_template(const Situation& s, Plan& next) {
  if (!is_true(s.job.status, kScheduled) || !has_other_template(s)) return;
  next.events.push_back({.reason = kTemplateChanged,
                         .message = "the ranks that run keep the old template; the next attempt "
                                    "takes the new one"});
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
    tell_changed_template(s, next);
    return;
  }
  const std::string text = describe_problems(problems);
  set_condition(next.status, {.type = kAccepted, .reason = "InvalidSpec", .message = text}, s.now);
  next.events.push_back({.warning = true, .reason = "InvalidSpec", .message = text});
}

// The world size that an attempt may have: that of the spec, or of the present attempt if only the
// change was refused; spec.ranksPerPod divides it. Nothing if the job cannot run at all.
std::optional<int64_t> allowed_ranks(const Situation& s, const TrainingJobStatus& status) {
  if (is_true(status, kAccepted)) return s.job.spec.ranks;
  if (!has_begun(status)) return std::nullopt;
  TrainingJob as_it_runs = s.job;
  as_it_runs.spec.ranks = status.ranks.desired;
  if (common::has_errors(api::check_job(as_it_runs))) return std::nullopt;
  return status.ranks.desired;
}

// A pod of ours belongs to a later attempt than the status says, so the status is old or was
// edited. Attempts never go back: their names would meet again.
Plan catch_up(const Situation& s, Plan next) {
  record_attempt(next.status,
                 {.number = s.gang.newest_attempt,
                  .ranks = next.status.ranks.desired,
                  .ranks_per_pod = next.status.ranks.per_pod,
                  .reason = kStartingReason},
                 s.now);
  next.requeue_after = kNextRound;
  return next;
}

// The first attempt of a job, or the next one of a suspended job.
Plan begin(const Situation& s, Plan next, std::optional<int64_t> ranks) {
  if (!ranks) return refuse(std::move(next));
  const bool resumes = is_true(next.status, kSuspended);
  const int64_t number = next.status.attempt + (has_begun(next.status) ? 1 : 0);
  record_attempt(next.status,
                 {.number = number,
                  .ranks = *ranks,
                  .ranks_per_pod = s.job.spec.ranks_per_pod,
                  .reason = kStartingReason},
                 s.now);
  next.status.message.clear();
  if (resumes) {
    set_condition(next.status, {.type = kSuspended, .reason = "Resumed"}, s.now);
    next.events.push_back(
        {.reason = "Resumed", .message = "on " + std::to_string(*ranks) + " ranks"});
  }
  next.requeue_after = kNextRound;
  return next;
}

// An attempt that never got its nodes, again with template and queue as they are now.
Plan renew(const Situation& s, Plan next, int64_t ranks) {
  record_attempt(next.status,
                 {.number = next.status.attempt + 1,
                  .ranks = ranks,
                  .ranks_per_pod = s.job.spec.ranks_per_pod,
                  .reason = kStartingReason},
                 s.now);
  next.status.message.clear();
  next.events.push_back({.reason = has_other_template(s) ? kTemplateChanged : "QueueChanged",
                         .message = has_other_template(s)
                                        ? "a new attempt begins with the new template"
                                        : "a new attempt begins as queue-name says now"});
  next.requeue_after = kNextRound;
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
  if (awaits_group(s)) {
    requeue_within(next, kNextRound);
  } else if (const std::optional<seconds> wait = gang_scheduler_wait(s)) {
    requeue_within(next, *wait);
  } else if (ranks) {
    create_missing(s, next);
  }
}

void tell_taken_name(const Situation& s, Plan& next) {
  if (s.gang.taken_name.empty() || is_true(next.status, kScheduled)) return;
  const std::string text = "another object has the name " + s.gang.taken_name;
  next.status.message = text;
  if (has_reason(s.job.status, kScheduled, "NameTaken")) return;
  next.events.push_back({.warning = true, .reason = "NameTaken", .message = text});
}

bool creates_pods(const Plan& next) {
  return std::any_of(next.actions.begin(), next.actions.end(), [](const Action& action) {
    return std::holds_alternative<CreatePod>(action);
  });
}

// A gang behind the gate of its queue, where pods are made: it waits for the queue, not for nodes.
void tell_queue(const Situation& s, Plan& next) {
  TrainingJobStatus& status = next.status;
  const bool is_waiting = is_queued(s.gang) || (status.queue && creates_pods(next));
  if (is_true(status, kScheduled) || !is_waiting) return;
  status.state = "Queued";
  status.message = describe_queue(s);
  set_condition(status, {.type = kScheduled, .reason = kQueuedReason, .message = status.message},
                s.now);
  requeue_within(next, kQueuePoll);
  const api::Condition* told = find_condition(s.job.status, kScheduled);
  if (told == nullptr || told->reason != kQueuedReason) {
    next.events.push_back({.reason = kQueuedReason, .message = status.message});
  } else if (is_left_alone(s) && told->message != status.message) {
    next.events.push_back({.warning = true, .reason = kQueueSilent, .message = status.message});
  }
}

// How soon to look at a gang that makes steps: a stall is to be found in time.
seconds look_again(const TrainingJob& job) {
  const seconds timeout = job.spec.failure_policy.stall_timeout;
  return timeout > seconds(0) ? std::min(kProgressPoll, timeout / 4) : kProgressPoll;
}

bool has_unready_node(const Gang& gang) {
  return std::any_of(gang.pods.begin(), gang.pods.end(), [](const PodView* pod) {
    return pod != nullptr && pod->phase == PodPhase::kRunning &&
           pod->node_state == NodeState::kUnready;
  });
}

// What is news about a gang that runs.
void tell_running(const Situation& s, Plan& next) {
  if (!is_true(s.job.status, kRunning)) {
    next.events.push_back({.reason = "Running", .message = "all ranks run"});
  }
  if (is_true(next.status, kStalled)) {
    set_condition(next.status, {.type = kStalled, .reason = "Restarted"}, s.now);
  }
  if (report_straggler(next.status, s.seen, s.gang, s.now)) {
    next.events.push_back(
        {.warning = true, .reason = "Straggler", .message = summarize(*next.status.straggler)});
  }
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
  describe_gang(next.status, s.gang, s.now);
  tell_queue(s, next);
  tell_gang(s, next);
  tell_taken_name(s, next);
  tell_releases(s, next);
  const bool is_complete = std::none_of(s.gang.pods.begin(), s.gang.pods.end(),
                                        [](const PodView* pod) { return pod == nullptr; });
  if (!ranks && !is_complete) next = refuse(std::move(next));
  if (loss) {
    take_last_progress(next.status, s.seen);  // rank 0 may be the one that ended
  } else {
    merge_progress(next.status, s.seen);
  }
  if (is_true(next.status, kRunning)) tell_running(s, next);
  if (next.status.ranks.running > 0 && s.job.spec.command.empty()) {
    requeue_within(next, next.status.progress ? look_again(s.job) : kFirstProgressPoll);
    if (has_unready_node(s.gang)) requeue_within(next, kUnreadyPoll);
  }
  requeue_for_deletions(s, next);
  return next;
}

Plan decide(const Situation& s, Plan next) {
  const TrainingJobStatus& status = s.job.status;
  judge_spec(s, next);
  if (s.gang.newest_attempt > status.attempt) return catch_up(s, std::move(next));
  if (has_succeeded(s.gang)) return succeed(s, std::move(next));
  const std::optional<Time> deadline = active_deadline(s.job);
  if (deadline && s.now >= *deadline) return exceed_deadline(s, std::move(next));

  const std::optional<int64_t> ranks = allowed_ranks(s, next.status);
  if (wants_stop(s, ranks)) {
    next = stop(s, std::move(next), ranks);
  } else if (!has_begun(next.status) || is_true(next.status, kSuspended)) {
    next = begin(s, std::move(next), ranks);
  } else if (const std::optional<HalfGang> half = find_half_gang(s); half && s.now >= half->until) {
    next = release_gang(s, std::move(next), *half);
  } else if (const std::optional<Loss> loss = find_loss(s); loss && !loss->wait_until) {
    next = restart_or_fail(s, std::move(next), loss->cause);
  } else if (const std::optional<RankFailure> stall = find_stall(s)) {
    next = restart_or_fail(s, std::move(next), *stall);
  } else if (ranks && !is_true(status, kScheduled) &&
             (has_other_template(s) || has_other_queue(s))) {
    next = renew(s, std::move(next), *ranks);
  } else if (ranks && needs_new_group(s)) {
    next = regroup(s, std::move(next));
  } else if (ranks && needs_other_gang(s)) {
    next = change_gang(s, std::move(next));
  } else {
    next = tend(s, std::move(next), ranks, loss);
    if (half) requeue_within(next, half->until - s.now);
  }
  if (deadline) requeue_within(next, *deadline - s.now);
  return next;
}

bool is_managed_elsewhere(const TrainingJob& job) {
  return !job.spec.managed_by.empty() && job.spec.managed_by != api::kOurController;
}

}  // namespace

Plan plan(const TrainingJob& job, const Observation& seen, const Settings& settings, Time now) {
  Plan next = {.actions = {}, .status = job.status, .events = {}, .requeue_after = {}};
  if (is_managed_elsewhere(job)) return next;

  const Situation s = {job, seen, settings, now, gather(job, seen)};
  if (job.meta.deletion_time) {  // owner references clean up
  } else if (is_finished(job.status)) {
    next = clean_up(s, std::move(next));
  } else {
    next = decide(s, std::move(next));
    join_queue(s, next.status);
    join_gang(s, next.status);
    end_gang(s, next);
    account(s, next.status);
  }
  end_groups(s, next);
  return next;
}

}  // namespace lockstep::plan
