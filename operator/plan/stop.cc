#include "operator/plan/stop.h"

#include <string>
#include <utility>

#include "operator/plan/attempt.h"
#include "operator/plan/children.h"
#include "operator/plan/gang.h"
#include "operator/plan/status.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

Plan suspended(const Situation& s, Plan next) {
  if (!is_true(next.status, kSuspended)) {
    next.events.push_back({.reason = "Suspended", .message = "all ranks stopped"});
  }
  set_condition(next.status, {.type = kSuspended, .value = true, .reason = "Suspended"}, s.now);
  set_condition(next.status, {.type = kScheduled, .reason = "Suspended"}, s.now);
  set_condition(next.status, {.type = kRunning, .reason = "Suspended"}, s.now);
  next.status.ranks = {.desired = next.status.ranks.desired, .per_pod = next.status.ranks.per_pod};
  next.status.restart_not_before.reset();
  next.status.gang_releases = 0;
  clear_straggler(next.status, "Suspended", s.now);
  next.status.state = "Suspended";
  next.status.message.clear();
  quiet_progress(next.status);
  return next;
}

// The gang stopped for another size, or for a suspension that was withdrawn: on with a new attempt.
Plan stopped(const Situation& s, Plan next, std::optional<int64_t> ranks) {
  if (!ranks) return refuse(std::move(next));
  if (*ranks != next.status.ranks.desired) {
    next.events.push_back({.reason = "Scaled",
                           .message = "from " + std::to_string(next.status.ranks.desired) + " to " +
                                      std::to_string(*ranks) + " ranks"});
  }
  if (find_condition(next.status, kSuspended) != nullptr) {
    set_condition(next.status, {.type = kSuspended, .reason = "Resumed"}, s.now);
  }
  record_attempt(next.status,
                 {.number = next.status.attempt + 1,
                  .ranks = *ranks,
                  .ranks_per_pod = s.job.spec.ranks_per_pod,
                  .reason = kStartingReason},
                 s.now);
  next.status.message.clear();
  next.requeue_after = kNextRound;
  return next;
}

}  // namespace

Plan refuse(Plan next) {
  const api::Condition* accepted = find_condition(next.status, kAccepted);
  next.status.state = "Invalid";
  next.status.message = accepted == nullptr ? "" : accepted->message;
  return next;
}

bool wants_stop(const Situation& s, std::optional<int64_t> ranks) {
  const api::TrainingJobStatus& status = s.job.status;
  if (s.job.spec.suspend) return true;
  if (is_true(status, kSuspended)) return false;
  return is_stopping(status) || (has_begun(status) && ranks && *ranks != status.ranks.desired);
}

Plan stop(const Situation& s, Plan next, std::optional<int64_t> ranks) {
  const bool suspends = s.job.spec.suspend;
  const bool has_stopped = !has_live_pods(s.gang, s.now);
  merge_progress(next.status, s.seen);
  if (has_stopped && !suspends) return stopped(s, std::move(next), ranks);

  delete_stale_pods(s, next);
  for (const PodView* pod : s.gang.pods) {
    // A pod that ended by itself stays as it is until the others stopped: how it ended counts.
    if (pod != nullptr && (has_stopped || !has_ended(*pod))) {
      delete_pod(next, pod, grace_of_attempt(s));
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

}  // namespace lockstep::plan
