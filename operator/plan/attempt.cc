#include "operator/plan/attempt.h"

#include <string>

#include "operator/plan/status.h"

namespace lockstep::plan {

bool has_begun(const api::TrainingJobStatus& status) {
  return status.start_time.has_value();
}

bool begins_attempt(const api::TrainingJobStatus& old, const api::TrainingJobStatus& next) {
  return next.attempt != old.attempt || (!has_begun(old) && has_begun(next));
}

void record_attempt(api::TrainingJobStatus& status, const NewAttempt& attempt, api::Time now) {
  const std::string reason(attempt.reason);
  status.attempt = attempt.number;
  status.ranks = {
      .desired = attempt.ranks, .pending = attempt.ranks, .per_pod = attempt.ranks_per_pod};
  status.restart_not_before.reset();
  clear_straggler(status, reason, now);
  if (!has_begun(status)) status.start_time = now;
  set_condition(status, {.type = kScheduled, .reason = reason}, now);
  set_condition(status, {.type = kRunning, .reason = reason}, now);
  status.state = attempt.reason == kRestartingReason ? "Restarting" : "Pending";
  quiet_progress(status);
}

}  // namespace lockstep::plan
