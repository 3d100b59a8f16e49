#include "operator/plan/heartbeat.h"

namespace lockstep::plan {
namespace {

// What the rank that answers says of its own age. Runtimes of before it had a field of its own say
// it in the list of ranks.
std::optional<double> age_of(const common::JobProgress& progress) {
  if (progress.age_seconds) return progress.age_seconds;
  for (const common::RankHeartbeat& heartbeat : progress.ranks) {
    if (heartbeat.rank == progress.rank) return heartbeat.age_seconds;
  }
  return std::nullopt;
}

}  // namespace

void Heartbeat::answered(const common::JobProgress& progress, Clock::time_point now) {
  heard_ = now;
  age_ = age_of(progress);
  step_ = progress.step;
  num_missed_ = 0;
}

std::optional<Pulse> Heartbeat::pulse(int64_t rank, Clock::time_point now) const {
  if (is_silent()) return Pulse{.rank = rank, .age = std::nullopt, .step = step_};
  if (!age_) return std::nullopt;
  const std::chrono::duration<double> told(*age_);
  return Pulse{.rank = rank,
               .age = idle(now),
               .step = step_,
               .told = std::chrono::floor<std::chrono::seconds>(told)};
}

std::chrono::seconds Heartbeat::idle(Clock::time_point now) const {
  const std::chrono::duration<double> told(is_silent() ? 0 : age_.value_or(0));
  return std::chrono::floor<std::chrono::seconds>((now - heard_) + told);
}

}  // namespace lockstep::plan
