// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "runtime/common/train_config.h"

namespace lockstep::runtime {

// Learning rate of optimizer step `step`, counted from 1 to total_steps.
//
// With W = warmup_steps, D = decay_steps, m = warmup_min_lr, and g rising from 0 to 1, a step below
// W runs at m + (lr - m) * g:
//   linear: g = step / W          log: g = ln(step + 1) / ln(W)
// so that the first step learns already, and step W runs at lr. Then, with r falling from 1 to 0
// and f = min_lr_ratio, steps run at lr * (f + (1 - f) * r):
//   constant: r = 1
//   linear:   r = 1 - p           cosine: r = (1 + cos(pi * p)) / 2        p = (step - W) / D
//   wsd:      r = 1 - p           p = (step - (total_steps - D)) / D, so the last step runs at f *
//   lr
// p is kept within [0, 1]: beyond its end a fall keeps its last value.
//
// DeepSpeed's WarmupLR is `constant` and WarmupDecayLR `linear` with D = total_num_steps - W and
// f = warmup_min_lr / lr; `step` is their last_batch_iteration (deepspeed/runtime/lr_schedules.py).
// Source of wsd: MiniCPM, arXiv:2404.06395, with a linear fall.
double lr_at(const common::ScheduleConfig& schedule, double lr, int64_t step, int64_t total_steps);

}  // namespace lockstep::runtime
