// The scale of the loss in fp16: as high as the gradients' range allows.
#pragma once

#include <cstdint>

#include "runtime/common/train_config.h"

namespace lockstep::runtime {

struct LossScaleState {
  double scale = 1;
  int64_t good_steps = 0;  // since the last overflow
  int64_t hysteresis = 1;  // the overflow that uses up the last one halves the scale
  bool operator==(const LossScaleState&) const = default;
};

// Before the first step: config.fixed, or if that is 0 a power of two that is not below config.min.
LossScaleState initial_loss_scale(const common::LossScaleConfig& config);

// Whether an overflow now would change the state: true until a dynamic scale is at its minimum.
bool can_back_off(const common::LossScaleConfig& config, const LossScaleState& state);

// After a step. DeepSpeed's rules: an overflow uses up hysteresis, and halves the scale once one is
// left; the scale is doubled, and hysteresis filled up, by the good step that comes after each
// `window` good steps. A fixed scale stays.
// Source: deepspeed/runtime/fp16/loss_scaler.py, DynamicLossScaler.
LossScaleState next_loss_scale(const common::LossScaleConfig& config, const LossScaleState& state,
                               bool overflow);

}  // namespace lockstep::runtime
