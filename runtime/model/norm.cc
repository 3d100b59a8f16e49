#include "runtime/model/norm.h"

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

using common::NormKind;

Norm::Norm(const common::ModelConfig& config, int64_t channels)
    : kind_(common::family_of(config).norm),
      eps_(static_cast<float>(config.rms_norm_eps)),
      channels_(channels) {}

void Norm::widen_weight(ConstValues weight, float* wide) const {
  widen(is_layer() ? 2 * channels_ : channels_, weight, wide);
  if (kind_ != NormKind::kRmsOnePlus) return;
  shift(channels_, 1.0F, wide, wide);
}

void Norm::forward(int64_t rows, const float* x, ConstValues weight, Values y, float* stats,
                   float* wide) const {
  if (kind_ == NormKind::kRms && weight.dtype == y.dtype) {
    rms_norm_forward(rows, channels_, eps_, x, weight, y, stats);
    return;
  }
  widen_weight(weight, wide);
  if (is_layer()) {
    layer_norm_forward(rows, channels_, eps_, x, wide, wide + channels_, y, stats);
  } else {
    rms_norm_forward(rows, channels_, eps_, x, wide, y, stats);
  }
}

void Norm::backward(int64_t rows, const float* x, ConstValues weight, const float* stats,
                    const float* dy, const float* residual, float* dx, float* d_weight,
                    float* wide) const {
  if (kind_ == NormKind::kRms) {
    rms_norm_backward(rows, channels_, x, weight, stats, dy, residual, dx, d_weight);
    return;
  }
  widen_weight(weight, wide);
  if (is_layer()) {
    float* const d_bias = d_weight == nullptr ? nullptr : d_weight + channels_;
    layer_norm_backward(rows, channels_, x, wide, stats, dy, residual, dx, d_weight, d_bias);
  } else {
    rms_norm_backward(rows, channels_, x, wide, stats, dy, residual, dx, d_weight);
  }
}

}  // namespace lockstep::runtime
