#include "operator/plan/goodput.h"

#include <algorithm>
#include <string>

#include "operator/plan/budget.h"
#include "operator/plan/queue.h"
#include "operator/plan/status.h"

namespace lockstep::plan {
namespace {

using api::Goodput;
using api::Time;
using api::TrainingJobStatus;

constexpr const char* kQueued = "Queued";
constexpr const char* kScheduling = "Scheduling";
constexpr const char* kStarting = "Starting";
constexpr const char* kProductive = "Productive";
constexpr const char* kDown = "Down";

// The sum that time in `phase` is added to; null for time that nobody counts.
int64_t* sum_of(Goodput& goodput, const std::string& phase) {
  if (phase == kQueued) return &goodput.queued_seconds;
  if (phase == kScheduling) return &goodput.scheduling_seconds;
  if (phase == kStarting) return &goodput.starting_seconds;
  if (phase == kProductive) return &goodput.productive_seconds;
  if (phase == kDown) return &goodput.down_seconds;
  if (phase == kSuspended) return &goodput.suspended_seconds;
  return nullptr;
}

void add_elapsed(Goodput& goodput, Time now) {
  if (now <= goodput.since) return;  // a clock that was set back
  const int64_t elapsed = (now - goodput.since).count();
  if (int64_t* sum = sum_of(goodput, goodput.phase)) *sum += elapsed;
  if (goodput.phase == kProductive) goodput.attempt_seconds += elapsed;
  goodput.since = now;
}

std::string phase_of(const TrainingJobStatus& status, const Goodput& goodput) {
  if (is_finished(status)) return "";
  if (!status.start_time) return kQueued;
  if (is_true(status, kSuspended)) return kSuspended;
  if (is_stopping(status)) return goodput.phase;  // it saves its work
  if (is_true(status, kRunning)) {
    return goodput.attempt == status.attempt ? kProductive : kStarting;
  }
  if (has_reason(status, kScheduled, kQueuedReason)) return kQueued;
  if (has_reason(status, kRunning, kRestartingReason)) return kDown;
  return is_true(status, kScheduled) ? kStarting : kScheduling;
}

// The attempt makes steps, or is a program of the user's own, of which we know no more.
bool makes_steps(const Situation& s, const TrainingJobStatus& status) {
  const bool is_same = status.attempt == s.job.status.attempt;
  return is_same && is_true(status, kRunning) && (s.seen.progress || s.job.spec.train.is_null());
}

}  // namespace

void account(const Situation& s, TrainingJobStatus& status) {
  Goodput goodput = status.goodput.value_or(
      Goodput{.phase = kQueued, .since = s.job.meta.creation_time.value_or(s.now)});
  if (makes_steps(s, status) && goodput.attempt != status.attempt) {
    add_elapsed(goodput, s.now);  // it was starting until now
    goodput.attempt = status.attempt;
    goodput.first_step = s.seen.progress ? s.seen.progress->last_checkpoint_step.value_or(0) : 0;
    goodput.attempt_seconds = 0;
  }
  const std::string phase = phase_of(status, goodput);
  if (phase != goodput.phase || status.progress != s.job.status.progress) {
    add_elapsed(goodput, s.now);
  }
  goodput.phase = phase;
  status.goodput = goodput;
}

void lose_steps(const Situation& s, TrainingJobStatus& status) {
  if (!status.goodput || status.goodput->attempt != status.attempt || !status.progress) return;
  Goodput& goodput = *status.goodput;
  add_elapsed(goodput, s.now);
  const int64_t step = status.progress->step;
  const int64_t lost = std::max<int64_t>(0, step - newest_checkpoint(status));
  const int64_t made = std::max<int64_t>(1, step - goodput.first_step);
  const double share = std::min(1.0, static_cast<double>(lost) / static_cast<double>(made));
  const auto spent = static_cast<int64_t>(share * static_cast<double>(goodput.attempt_seconds));
  const int64_t seconds =
      std::clamp<int64_t>(spent, 0, std::max<int64_t>(0, goodput.productive_seconds));
  goodput.lost_steps += lost;
  goodput.productive_seconds -= seconds;
  goodput.attempt_seconds -= seconds;
  goodput.lost_seconds += seconds;
}

}  // namespace lockstep::plan
