// The last block: final norm, lm_head and the sum of the cross-entropy.
#pragma once

#include "runtime/common/train_config.h"
#include "runtime/model/block.h"

namespace lockstep::runtime {

// Forward already knows the scale of the loss, so it keeps the gradient of the logits in place of
// the logits: [rows, vocab] is stored once.
class Head final : public Block {
 public:
  explicit Head(const common::ModelConfig& config);

  const Unit& unit() const override { return unit_; }
  int64_t saved_elems(const BatchShape& shape) const override;
  int64_t scratch_elems(const BatchShape& shape) const override;
  void forward(const BatchShape& shape, const float* params, MicroBatchIo& io,
               const BlockBuffers& buffers) const override;
  void backward(const BatchShape& shape, const float* params, const MicroBatchIo& io,
                const BlockBuffers& buffers, float* gradients) const override;

  // Logits without a loss.
  //   x: [rows, hidden]; scratch: [scratch_elems] of a shape with that many rows; out: [rows,
  //   vocab].
  void logits(int64_t rows, const float* params, const float* x, float* scratch, float* out) const;

 private:
  int64_t vocab_size_;
  int64_t hidden_size_;
  float eps_;
  Unit unit_;
};

}  // namespace lockstep::runtime
