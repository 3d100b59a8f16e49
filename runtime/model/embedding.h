// The first block: one row of the embedding table per token.
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
  int64_t scratch_elems(const BatchShape&) const override { return 0; }
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
  Unit unit_;
};

}  // namespace lockstep::runtime
