#include "runtime/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::runtime {

double lr_at(const common::ScheduleConfig& schedule, double lr, int64_t step, int64_t total_steps) {
  using Kind = common::ScheduleConfig::Kind;
  if (step < schedule.warmup_steps) {
    return lr * static_cast<double>(step) / static_cast<double>(schedule.warmup_steps);
  }
  const int64_t decay_steps = std::max<int64_t>(1, total_steps - schedule.warmup_steps);
  const double progress = std::min(
      1.0, static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(decay_steps));
  double remaining = 1.0;  // falls from 1 to 0
  switch (schedule.kind) {
    case Kind::kConstant:
      return lr;
    case Kind::kLinear:
      remaining = 1.0 - progress;
      break;
    case Kind::kCosine:
      remaining = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
      break;
  }
  return lr * (schedule.min_lr_ratio + (1.0 - schedule.min_lr_ratio) * remaining);
}

}  // namespace lockstep::runtime
