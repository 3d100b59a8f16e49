#include "operator/plan/deadline.h"

#include <chrono>

#include "operator/plan/status.h"

namespace lockstep::plan {

std::optional<api::Time> active_deadline(const api::TrainingJob& job) {
  const api::TrainingJobStatus& status = job.status;
  if (!job.spec.active_deadline || !status.start_time) return std::nullopt;
  if (job.spec.suspend || is_true(status, kSuspended)) return std::nullopt;
  const int64_t suspended = status.goodput ? status.goodput->suspended_seconds : 0;
  return *status.start_time + *job.spec.active_deadline + std::chrono::seconds(suspended);
}

std::optional<api::Time> expiry(const api::TrainingJob& job) {
  if (!job.spec.ttl_after_finished || !job.status.completion_time) return std::nullopt;
  return *job.status.completion_time + *job.spec.ttl_after_finished;
}

}  // namespace lockstep::plan
