#include "operator/plan/finish.h"

#include <optional>
#include <utility>

#include "operator/plan/children.h"
#include "operator/plan/deadline.h"
#include "operator/plan/gang.h"
#include "operator/plan/render.h"
#include "operator/plan/status.h"

namespace lockstep::plan {
namespace {

void finish(const Situation& s, api::TrainingJobStatus& status) {
  count_ranks(status, s.gang);
  set_condition(status, {.type = kRunning, .reason = "Finished"}, s.now);
  status.restart_not_before.reset();
  clear_straggler(status, "Finished", s.now);
  status.completion_time = s.now;
}

bool is_deleted_at_the_end(const Situation& s, const PodView& pod) {
  switch (s.job.spec.clean_pod_policy) {
    case api::CleanPodPolicy::kAll:
      return true;
    case api::CleanPodPolicy::kRunning:
      return holds_resources(pod);
    case api::CleanPodPolicy::kNone:
      break;
  }
  return holds_resources(pod) && has_reason(s.job.status, kFailed, kDeadlineExceeded);
}

}  // namespace

Plan succeed(const Situation& s, Plan next) {
  take_last_progress(next.status, s.seen);
  finish(s, next.status);
  if (next.status.progress) {  // the last poll was before the last step
    next.status.progress->step = next.status.progress->total_steps;
    next.status.progress->eta_seconds = 0;
  }
  if (is_true(next.status, kStalled)) {
    set_condition(next.status, {.type = kStalled, .reason = "Finished"}, s.now);
  }
  set_condition(next.status, {.type = kSucceeded, .value = true, .reason = "AllRanksSucceeded"},
                s.now);
  next.status.state = "Succeeded";
  next.status.message.clear();
  next.events.push_back({.reason = "Succeeded", .message = "all ranks succeeded"});
  return next;
}

Plan fail(const Situation& s, Plan next, const std::string& reason, const std::string& message) {
  finish(s, next.status);
  quiet_progress(next.status);
  set_condition(next.status, {.type = kFailed, .value = true, .reason = reason, .message = message},
                s.now);
  next.status.state = "Failed";
  next.status.message = message;
  next.events.push_back({.warning = true, .reason = "Failed", .message = message});
  return next;
}

Plan exceed_deadline(const Situation& s, Plan next) {
  take_last_progress(next.status, s.seen);
  const int64_t limit = s.job.spec.active_deadline->count();
  return fail(s, std::move(next), kDeadlineExceeded,
              "was active for longer than activeDeadlineSeconds: " + std::to_string(limit) + " s");
}

Plan clean_up(const Situation& s, Plan next) {
  if (const std::optional<api::Time> end = expiry(s.job)) {
    if (s.now >= *end) {
      next.actions.push_back(
          DeleteJob{.uid = s.job.meta.uid, .resource_version = s.job.meta.resource_version});
      return next;
    }
    requeue_within(next, *end - s.now);
  }
  const bool is_late = has_reason(s.job.status, kFailed, kDeadlineExceeded);
  for (const PodView* pod : s.gang.pods) {
    if (pod == nullptr || !is_deleted_at_the_end(s, *pod)) continue;
    delete_pod(next, pod, is_late ? grace_of_attempt(s) : kShortGrace);
  }
  if (s.job.spec.clean_pod_policy == api::CleanPodPolicy::kAll) {
    delete_all_stale_pods(s, next);
  } else {
    delete_stale_pods(s, next);
  }
  return next;
}

}  // namespace lockstep::plan
