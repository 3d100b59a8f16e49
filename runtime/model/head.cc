#include "runtime/model/head.h"

#include <stdexcept>
#include <string>

#include "runtime/kernels/elementwise.h"
#include "runtime/model/layout.h"
#include "runtime/model/linear.h"

namespace lockstep::runtime {
namespace {

struct SavedLayout {
  int64_t rstd = 0;      // [rows]
  int64_t d_logits = 0;  // [rows, vocab], already times the loss scale
  int64_t num_elems = 0;
};

SavedLayout saved_layout(int64_t rows, int64_t vocab) {
  Layout layout;
  SavedLayout saved;
  saved.rstd = layout.take(rows);
  saved.d_logits = layout.take(rows * vocab);
  saved.num_elems = layout.num_elems();
  return saved;
}

struct ScratchLayout {
  int64_t normed = 0;    // [rows, hidden]
  int64_t d_normed = 0;  // [rows, hidden]
  int64_t rstd = 0;      // [rows], for logits without a loss
  int64_t num_elems = 0;
};

ScratchLayout scratch_layout(int64_t rows, int64_t hidden) {
  Layout layout;
  ScratchLayout scratch;
  scratch.normed = layout.take(rows * hidden);
  scratch.d_normed = layout.take(rows * hidden);
  scratch.rstd = layout.take(rows);
  scratch.num_elems = layout.num_elems();
  return scratch;
}

}  // namespace

Head::Head(const common::ModelConfig& config)
    : vocab_size_(config.vocab_size),
      hidden_size_(config.hidden_size),
      eps_(static_cast<float>(config.rms_norm_eps)),
      unit_(head_unit(config)) {}

int64_t Head::saved_elems(const BatchShape& shape) const {
  return saved_layout(shape.rows(), vocab_size_).num_elems;
}

int64_t Head::scratch_elems(const BatchShape& shape) const {
  return scratch_layout(shape.rows(), hidden_size_).num_elems;
}

void Head::forward(const BatchShape& shape, const float* params, MicroBatchIo& io,
                   const BlockBuffers& buffers) const {
  const int64_t rows = shape.rows();
  for (int64_t row = 0; row < rows; ++row) {
    if (io.labels[row] >= vocab_size_) {
      throw std::out_of_range("label " + std::to_string(io.labels[row]) + " at position " +
                              std::to_string(row) + " of a micro-batch: the vocabulary has " +
                              std::to_string(vocab_size_) + " entries");
    }
  }
  const SavedLayout at = saved_layout(rows, vocab_size_);
  float* const normed = buffers.scratch + scratch_layout(rows, hidden_size_).normed;
  float* const logits_to_gradient = buffers.saved + at.d_logits;
  rms_norm_forward(rows, hidden_size_, eps_, buffers.x, params, normed, buffers.saved + at.rstd);
  linear_forward({rows, hidden_size_, vocab_size_}, normed, params + hidden_size_,
                 logits_to_gradient);
  io.loss_sum = cross_entropy(rows, vocab_size_, io.labels, io.loss_scale, logits_to_gradient);
}

void Head::backward(const BatchShape& shape, const float* params, const MicroBatchIo& /*io*/,
                    const BlockBuffers& buffers, float* gradients) const {
  const int64_t rows = shape.rows();
  const LinearShape product = {rows, hidden_size_, vocab_size_};
  const SavedLayout at = saved_layout(rows, vocab_size_);
  const ScratchLayout temp = scratch_layout(rows, hidden_size_);
  float* const rstd = buffers.saved + at.rstd;
  const float* const d_logits = buffers.saved + at.d_logits;
  float* const normed = buffers.scratch + temp.normed;
  float* const d_normed = buffers.scratch + temp.d_normed;

  rms_norm_forward(rows, hidden_size_, eps_, buffers.x, params, normed, rstd);
  linear_weight_gradient(product, d_logits, normed, gradients + hidden_size_);
  linear_input_gradient(product, d_logits, params + hidden_size_, d_normed);
  rms_norm_backward(rows, hidden_size_, buffers.x, params, rstd, d_normed, nullptr, buffers.dx,
                    gradients);
}

void Head::logits(int64_t rows, const float* params, const float* x, float* scratch,
                  float* out) const {
  const ScratchLayout temp = scratch_layout(rows, hidden_size_);
  float* const normed = scratch + temp.normed;
  rms_norm_forward(rows, hidden_size_, eps_, x, params, normed, scratch + temp.rstd);
  linear_forward({rows, hidden_size_, vocab_size_}, normed, params + hidden_size_, out);
}

}  // namespace lockstep::runtime
