// Which rank keeps the others waiting, step after step.
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

  // The rank that was slowest in each of the newest kSamples samples, by more than kLag times the
  // median each time. With two ranks, the median is the other one's time.
  std::optional<Lag> straggler() const;

  static constexpr std::size_t kSamples = 5;
  static constexpr double kLag = 1.5;

 private:
  std::deque<Lag> slowest_;  // one per sample, oldest first; at most kSamples
  int64_t last_step_ = -1;
};

}  // namespace lockstep::plan
