// Which rank keeps the others waiting, step after step.
//
// Note [A straggler is named late and cleared late]
// A rank is named once it was the slowest in each of the newest kSamples samples, by more than kLag
// times the median each time; it stays named until in as many samples in a row it did not lag so.
// What alternates faster than that changes nothing, so the condition Straggling never flaps. Until
// so many samples were taken nothing is known: an operator that starts anew takes nothing back.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "operator/plan/plan.h"
#include "runtime/common/progress.h"

namespace lockstep::plan {

// Step times of one attempt's newest samples, as rank 0 told them.
class StepTimes {
 public:
  // Takes a sample if it tells of a step that was not sampled yet; an older step begins anew.
  void add(const common::JobProgress& progress);

  // Whether the samples are enough to tell.
  bool is_known() const { return slowest_.size() >= kSamples; }
  // The rank that is named, with its newest ratio of those that lagged. With two ranks, the median
  // is the other one's time.
  std::optional<Lag> straggler() const { return named_; }

  static constexpr std::size_t kSamples = 5;
  static constexpr double kLag = 1.5;

 private:
  std::deque<Lag> slowest_;  // one per sample, oldest first; at most kSamples
  std::optional<Lag> named_;
  int64_t last_step_ = -1;
};

}  // namespace lockstep::plan
