#include "runtime/optim/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace lockstep::runtime {

LossScaleState initial_loss_scale(const common::LossScaleConfig& config) {
  if (config.fixed > 0) return {.scale = config.fixed, .hysteresis = config.hysteresis};
  const double scale = std::ldexp(1.0, static_cast<int>(config.initial_power));
  return {.scale = std::max(scale, config.min), .hysteresis = config.hysteresis};
}

bool can_back_off(const common::LossScaleConfig& config, const LossScaleState& state) {
  return config.fixed == 0 && (state.hysteresis > 1 || state.scale > config.min);
}

LossScaleState next_loss_scale(const common::LossScaleConfig& config, const LossScaleState& state,
                               bool overflow) {
  if (config.fixed > 0) return state;
  LossScaleState next = state;
  if (overflow) {
    next.good_steps = 0;
    if (state.hysteresis > 1) {
      --next.hysteresis;
    } else {
      next.scale = std::max(state.scale / 2, config.min);
    }
    return next;
  }
  ++next.good_steps;
  if (state.good_steps > 0 && state.good_steps % config.window == 0) {
    next.scale = state.scale * 2;
    next.hysteresis = config.hysteresis;
  }
  return next;
}

}  // namespace lockstep::runtime
