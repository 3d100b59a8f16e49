// The last block of a model that tells one number of a text: final norm, and the score of rows that
// the micro-batch names.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/model/block.h"
#include "runtime/model/norm.h"

namespace lockstep::runtime {

// Note [Scores of spans]
// io.span_loss says which rows are scored: of each span its last one. Nothing else of a sequence
// reaches the loss, so that the norm and the product run over these rows alone, of which a sequence
// has at most one. backward computes the loss, as the other head's does, and needs no forward.

class ScoreHead final : public Block {
 public:
  explicit ScoreHead(const common::ModelConfig& config, DType dtype = DType::kFp32);

  const Unit& unit() const override { return unit_; }
  SavedElems saved_elems(const BatchShape&) const override { return {}; }
  int64_t scratch_elems(const BatchShape& shape) const override;
  // Both throw std::invalid_argument if there is no span_loss, or it has more than one span for
  // each sequence and one behind them.
  void forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
               const BlockBuffers& buffers) const override;
  void recompute(const BatchShape&, ConstValues, const MicroBatchIo&, const BlockBuffers&,
                 Recompute) const override {}
  void backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                const BlockBuffers& buffers, float* gradients) const override;

 private:
  struct Scratch;
  Scratch scratch_layout(const BatchShape& shape) const;
  // Runs the block on the rows that are scored. Returns the derivative of the loss by each score.
  std::vector<double> score(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                            const BlockBuffers& buffers) const;

  int64_t hidden_size_;
  DType dtype_;
  Norm norm_;
  Unit unit_;
};

}  // namespace lockstep::runtime
