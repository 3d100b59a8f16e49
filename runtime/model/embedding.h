// The first block: one row of the embedding table per token, with one of its position in families
// that learn positions.
#pragma once

#include "runtime/common/train_config.h"
#include "runtime/model/block.h"

namespace lockstep::runtime {

// Of a model with tied embeddings, backward adds to what the head has written: see
// Note [Tied embeddings] in head.h.
class Embedding final : public Block {
 public:
  explicit Embedding(const common::ModelConfig& config);

  const Unit& unit() const override { return unit_; }
  SavedElems saved_elems(const BatchShape&) const override { return {}; }
  int64_t scratch_elems(const BatchShape& shape) const override;
  void forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
               const BlockBuffers& buffers) const override;
  void recompute(const BatchShape&, ConstValues, const MicroBatchIo&, const BlockBuffers&,
                 Recompute) const override {}
  void backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                const BlockBuffers& buffers, float* gradients) const override;

 private:
  int64_t vocab_size_;
  int64_t hidden_size_;
  bool is_tied_;
  int64_t num_positions_;  // 0: none are learned
  float multiplier_;
  Unit unit_;
};

}  // namespace lockstep::runtime
