#include "runtime/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::runtime {
namespace {

using common::ScheduleConfig;

double warm_up(const ScheduleConfig& schedule, double lr, int64_t step) {
  const auto warmup_steps = static_cast<double>(schedule.warmup_steps);
  const double rise = lr - schedule.warmup_min_lr;
  if (schedule.warmup == ScheduleConfig::Warmup::kLog) {
    return schedule.warmup_min_lr +
           rise * std::log(static_cast<double>(step + 1)) / std::log(warmup_steps);
  }
  return schedule.warmup_min_lr + rise * static_cast<double>(step) / warmup_steps;
}

// What is left of the fall, from 1 to 0.
double remaining_at(const ScheduleConfig& schedule, int64_t step, int64_t total_steps) {
  using Kind = ScheduleConfig::Kind;
  const bool is_last_part = schedule.kind == Kind::kWarmupStableDecay;
  const int64_t begin = is_last_part ? total_steps - schedule.decay_steps : schedule.warmup_steps;
  const auto decay_steps = static_cast<double>(std::max<int64_t>(1, schedule.decay_steps));
  const double progress = std::clamp(static_cast<double>(step - begin) / decay_steps, 0.0, 1.0);
  switch (schedule.kind) {
    case Kind::kConstant:
      return 1.0;
    case Kind::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    case Kind::kLinear:
    case Kind::kWarmupStableDecay:
      break;
  }
  return 1.0 - progress;
}

}  // namespace

double lr_at(const ScheduleConfig& schedule, double lr, int64_t step, int64_t total_steps) {
  if (step < schedule.warmup_steps) return warm_up(schedule, lr, step);
  const double remaining = remaining_at(schedule, step, total_steps);
  if (remaining == 1.0) return lr;  // to the bit, whatever min_lr_ratio
  return lr * (schedule.min_lr_ratio + (1.0 - schedule.min_lr_ratio) * remaining);
}

}  // namespace lockstep::runtime
