// The last block: final norm, lm_head and the sum of the cross-entropy, or of what a teacher makes
// of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/model/block.h"
#include "runtime/model/norm.h"

namespace lockstep::runtime {

// Note [Logits by chunks of rows]
// [rows, vocab] is never stored: logits of kLossChunkElems elements at a time become their gradient
// in place (in bf16 and fp16 rounded too, on GPUs apart) and are used up before the next chunk. So
// backward computes the loss and needs no forward before it; forward is for a loss without
// gradients. The gradient of lm_head is summed over the chunks in row order, hence the size of a
// chunk is part of the arithmetic: a function of the vocabulary and of the kind of device
// (Device::row_factor), never tuned at run time. A micro-batch that fits in one chunk has the bits
// of a loss over all its rows.
inline constexpr int64_t kLossChunkElems = int64_t{4} << 20;
// Products over fewer rows would wait for lm_head to come from memory.
inline constexpr int64_t kMinLossChunkRows = 256;

// Rows of a chunk for that vocabulary.
inline int64_t loss_chunk_rows(int64_t vocab_size) {
  return std::max(kMinLossChunkRows, kLossChunkElems / vocab_size);
}

// Note [Tied embeddings]
// With tie_word_embeddings lm_head is the embedding's weight, which lives in the embedding's unit
// and nowhere else: one master, one pair of moments, one tensor in checkpoints and exports (as
// Transformers writes it). The head borrows it; its backward writes its part of the gradient to the
// embedding's buffer, and the embedding's backward, last of a micro-batch, adds the rows of its
// tokens. So the two are always summed in that order.

class Head final : public Block {
 public:
  explicit Head(const common::ModelConfig& config, DType dtype = DType::kFp32);

  const Unit& unit() const override { return unit_; }
  SavedElems saved_elems(const BatchShape&) const override { return {}; }
  int64_t scratch_elems(const BatchShape& shape) const override;
  void forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
               const BlockBuffers& buffers) const override;
  void recompute(const BatchShape&, ConstValues, const MicroBatchIo&, const BlockBuffers&,
                 Recompute) const override {}
  void backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                const BlockBuffers& buffers, float* gradients) const override;

  // Logits without a loss.
  //   x: [rows, hidden]; out: [rows, vocab]; of `buffers`, scratch for a shape with that many rows
  //   and tied_weight are used.
  void logits(int64_t rows, ConstValues params, const float* x, const BlockBuffers& buffers,
              float* out) const;

 private:
  struct Scratch;
  Scratch scratch_layout(int64_t rows) const;
  // Logits of a chunk of rows, scaled and capped.
  void make_logits(int64_t rows, ConstValues x, ConstValues weight, float* out) const;
  // What span_loss makes of a micro-batch: its loss in io.loss_sum, and the weight of each span.
  //   normed: [rows, hidden]; logits: scratch for a chunk.
  std::vector<double> weigh_spans(int64_t rows, ConstValues normed, ConstValues weight,
                                  MicroBatchIo& io, float* logits) const;
  ConstValues lm_head(ConstValues params, const BlockBuffers& buffers) const;

  int64_t vocab_size_;
  int64_t hidden_size_;
  bool is_tied_;
  DType dtype_;
  Norm norm_;
  float logit_factor_;
  float softcap_;  // 0: none
  Unit unit_;
};

}  // namespace lockstep::runtime
