// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "runtime/common/train_config.h"

namespace lockstep::runtime {

// Learning rate of optimizer step `step`, counted from 1 to total_steps.
// Warm-up is linear, lr * step / warmup_steps: the first step already learns and step warmup_steps
// runs at lr. Then cosine and linear fall to min_lr_ratio * lr, reached at step total_steps;
// constant stays at lr. Steps beyond total_steps keep the last value.
double lr_at(const common::ScheduleConfig& schedule, double lr, int64_t step, int64_t total_steps);

}  // namespace lockstep::runtime
