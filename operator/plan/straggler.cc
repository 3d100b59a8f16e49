#include "operator/plan/straggler.h"

#include <algorithm>

namespace lockstep::plan {
namespace {

// The slowest rank of one step, with its ratio to the (lower) median; nothing without times.
std::optional<Lag> slowest_of(const std::vector<common::RankHeartbeat>& ranks) {
  if (ranks.size() < 2) return std::nullopt;
  std::vector<double> times;
  times.reserve(ranks.size());
  for (const common::RankHeartbeat& rank : ranks) times.push_back(rank.step_seconds);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  if (*middle <= 0) return std::nullopt;
  const auto slowest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const auto& a, const auto& b) { return a.step_seconds < b.step_seconds; });
  return Lag{.rank = slowest->rank, .ratio = slowest->step_seconds / *middle};
}

}  // namespace

void StepTimes::add(const common::JobProgress& progress) {
  if (progress.step < last_step_) {
    slowest_.clear();
    named_.reset();
  }
  if (progress.step == last_step_) return;
  const std::optional<Lag> slowest = slowest_of(progress.ranks);
  if (!slowest) return;
  last_step_ = progress.step;
  slowest_.push_back(*slowest);
  if (slowest_.size() > kSamples) slowest_.pop_front();
  if (!is_known()) return;
  const Lag newest = slowest_.back();
  const auto lags = [](int64_t rank) {
    return [rank](const Lag& lag) { return lag.rank == rank && lag.ratio > kLag; };
  };
  if (std::all_of(slowest_.begin(), slowest_.end(), lags(newest.rank))) {
    named_ = newest;
  } else if (named_ && std::none_of(slowest_.begin(), slowest_.end(), lags(named_->rank))) {
    named_.reset();
  }
}

}  // namespace lockstep::plan
