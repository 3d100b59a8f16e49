// What becomes of a step whose loss or gradient is not finite: the same decision on every rank,
// since it follows from what the control exchange and the norm told all of them.
#pragma once

#include <cstdint>

#include "runtime/common/train_config.h"
#include "runtime/optim/loss_scale.h"

namespace lockstep::runtime {

// What earlier steps left behind besides weights and moments. Saved in checkpoints.
struct StepHistory {
  int64_t skipped_steps = 0;      // of the run
  int64_t consecutive_skips = 0;  // up to now, without those that lowered the loss scale
  LossScaleState loss_scale;      // of the next step; 1 unless precision is fp16
  // What all steps have worked on, skipped ones too, where steps differ (a custom loop); else 0.
  int64_t num_items = 0;
  bool operator==(const StepHistory&) const = default;
};

StepHistory initial_history(const common::TrainConfig& config);

struct StepVerdict {
  StepHistory next;
  bool gives_up = false;  // the run ends, after train.nonFinite.maxConsecutiveSkips skips
};

// Judges a finished step. One that is not finite is skipped: the weights stay, the data goes on. In
// fp16 an overflow is the ordinary way to a lower scale and counts against the run only once the
// scale cannot fall.
StepVerdict judge_step(const common::TrainConfig& config, const StepHistory& history,
                       bool is_finite);

}  // namespace lockstep::runtime
