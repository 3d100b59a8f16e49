// The norms of all families over buffers of a block.
#pragma once

#include <cstdint>

#include "runtime/common/model_family.h"
#include "runtime/kernels/typed_values.h"

namespace lockstep::runtime {

// Rows of `channels` floats. LayerNorm's bias follows its weight, as do their gradients.
class Norm {
 public:
  Norm(const common::ModelConfig& config, int64_t channels);

  int64_t stats_elems(int64_t rows) const { return is_layer() ? 2 * rows : rows; }
  // What forward() needs if weight and y are of one type; 2 * channels in any case.
  int64_t wide_elems() const { return kind_ == common::NormKind::kRms ? 0 : 2 * channels_; }

  //   x: [rows, channels]; weight: [channels], with the bias; y: [rows, channels], of the type of
  //   computation or fp32; stats: [stats_elems] written for backward; wide: scratch.
  void forward(int64_t rows, const float* x, ConstValues weight, Values y, float* stats,
               float* wide) const;
  //   dx: may alias dy or residual; residual: added, null for none; d_weight: written unless null.
  void backward(int64_t rows, const float* x, ConstValues weight, const float* stats,
                const float* dy, const float* residual, float* dx, float* d_weight,
                float* wide) const;

 private:
  bool is_layer() const { return kind_ == common::NormKind::kLayer; }
  // The weight to multiply with as floats in `wide`, with the bias behind it.
  void widen_weight(ConstValues weight, float* wide) const;

  common::NormKind kind_;
  float eps_;
  int64_t channels_;
};

}  // namespace lockstep::runtime
