#include "operator/plan/deadline.h"

#include <algorithm>
#include <chrono>

#include "operator/plan/queue.h"
#include "operator/plan/status.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

// Of the time since the first attempt: what the job was suspended, or waited in a queue.
seconds idle_time(const api::TrainingJob& job) {
  if (!job.status.goodput) return seconds(0);
  const api::Goodput& goodput = *job.status.goodput;
  const api::Time start = *job.status.start_time;
  const seconds before = start - job.meta.creation_time.value_or(start);
  const seconds queued = seconds(goodput.queued_seconds) - std::max(before, seconds(0));
  return seconds(goodput.suspended_seconds) + std::max(queued, seconds(0));
}

}  // namespace

std::optional<api::Time> active_deadline(const api::TrainingJob& job) {
  const api::TrainingJobStatus& status = job.status;
  if (!job.spec.active_deadline || !status.start_time) return std::nullopt;
  if (job.spec.suspend || is_true(status, kSuspended)) return std::nullopt;
  if (has_reason(status, kScheduled, kQueuedReason)) return std::nullopt;
  return *status.start_time + *job.spec.active_deadline + idle_time(job);
}

std::optional<api::Time> expiry(const api::TrainingJob& job) {
  if (!job.spec.ttl_after_finished || !job.status.completion_time) return std::nullopt;
  return *job.status.completion_time + *job.spec.ttl_after_finished;
}

}  // namespace lockstep::plan
