#include "runtime/train/step_guard.h"

namespace lockstep::runtime {

StepHistory initial_history(const common::TrainConfig& config) {
  StepHistory history;
  if (config.precision == common::DType::kFp16) {
    history.loss_scale = initial_loss_scale(config.loss_scale);
  }
  return history;
}

StepVerdict judge_step(const common::TrainConfig& config, const StepHistory& history,
                       bool is_finite) {
  const bool is_scaled = config.precision == common::DType::kFp16;
  StepVerdict verdict = {.next = history};
  if (is_scaled) {
    verdict.next.loss_scale = next_loss_scale(config.loss_scale, history.loss_scale, !is_finite);
  }
  if (is_finite) {
    verdict.next.consecutive_skips = 0;
    return verdict;
  }
  ++verdict.next.skipped_steps;
  if (is_scaled && can_back_off(config.loss_scale, history.loss_scale)) return verdict;
  ++verdict.next.consecutive_skips;
  verdict.gives_up = verdict.next.consecutive_skips > config.non_finite.max_consecutive_skips;
  return verdict;
}

}  // namespace lockstep::runtime
