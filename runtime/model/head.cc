#include "runtime/model/head.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/kernels/elementwise.h"
#include "runtime/model/layout.h"
#include "runtime/model/linear.h"

namespace lockstep::runtime {
namespace {

struct ScratchLayout {
  int64_t normed = 0;    // [rows, hidden], of the type of computation
  int64_t d_normed = 0;  // [rows, hidden]
  int64_t rstd = 0;      // [rows]
  int64_t logits = 0;    // [rows of a chunk, vocab], then their gradient
  int64_t num_elems = 0;
};

ScratchLayout scratch_layout(int64_t rows, int64_t hidden, int64_t vocab) {
  Layout layout;
  ScratchLayout scratch;
  scratch.normed = layout.take(rows * hidden);
  scratch.d_normed = layout.take(rows * hidden);
  scratch.rstd = layout.take(rows);
  scratch.logits = layout.take(std::min(rows, loss_chunk_rows(vocab)) * vocab);
  scratch.num_elems = layout.num_elems();
  return scratch;
}

struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;
};

std::vector<RowRange> loss_chunks(int64_t rows, int64_t vocab) {
  const int64_t most = loss_chunk_rows(vocab);
  std::vector<RowRange> chunks;
  for (int64_t begin = 0; begin < rows; begin += most) {
    chunks.push_back({begin, std::min(most, rows - begin)});
  }
  return chunks;
}

void require_labels(const BatchShape& shape, const int32_t* labels, int64_t vocab) {
  for (int64_t row = 0; row < shape.rows(); ++row) {
    if (labels[row] >= vocab) {
      throw std::out_of_range("label " + std::to_string(labels[row]) + " at position " +
                              std::to_string(row) + " of a micro-batch: the vocabulary has " +
                              std::to_string(vocab) + " entries");
    }
  }
}

}  // namespace

Head::Head(const common::ModelConfig& config, DType dtype)
    : vocab_size_(config.vocab_size),
      hidden_size_(config.hidden_size),
      is_tied_(config.tie_word_embeddings),
      dtype_(dtype),
      eps_(static_cast<float>(config.rms_norm_eps)),
      unit_(head_unit(config)) {}

int64_t Head::scratch_elems(const BatchShape& shape) const {
  return scratch_layout(shape.rows(), hidden_size_, vocab_size_).num_elems;
}

void Head::forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                   const BlockBuffers& buffers) const {
  require_labels(shape, io.labels, vocab_size_);
  const int64_t rows = shape.rows();
  const ScratchLayout temp = scratch_layout(rows, hidden_size_, vocab_size_);
  const Values normed = {dtype_, buffers.scratch + temp.normed};
  float* const logits = buffers.scratch + temp.logits;
  const ConstValues weight = is_tied_ ? buffers.tied_weight : params.from(hidden_size_);
  rms_norm_forward(rows, hidden_size_, eps_, buffers.x, params, normed,
                   buffers.scratch + temp.rstd);
  io.loss_sum = 0;
  for (const RowRange& chunk : loss_chunks(rows, vocab_size_)) {
    linear_forward({chunk.count, hidden_size_, vocab_size_},
                   normed.from(chunk.begin * hidden_size_), weight, logits);
    io.loss_sum +=
        cross_entropy(chunk.count, vocab_size_, io.labels + chunk.begin, io.loss_scale, logits);
  }
}

// See Note [Logits by chunks of rows].
void Head::backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                    const BlockBuffers& buffers, float* gradients) const {
  require_labels(shape, io.labels, vocab_size_);
  const int64_t rows = shape.rows();
  const ScratchLayout temp = scratch_layout(rows, hidden_size_, vocab_size_);
  float* const rstd = buffers.scratch + temp.rstd;
  const Values normed = {dtype_, buffers.scratch + temp.normed};
  float* const d_normed = buffers.scratch + temp.d_normed;
  float* const logits = buffers.scratch + temp.logits;
  const ConstValues weight = is_tied_ ? buffers.tied_weight : params.from(hidden_size_);
  float* const d_weight = is_tied_ ? buffers.tied_gradient : at(gradients, hidden_size_);

  rms_norm_forward(rows, hidden_size_, eps_, buffers.x, params, normed, rstd);
  io.loss_sum = 0;
  for (const RowRange& chunk : loss_chunks(rows, vocab_size_)) {
    const LinearShape product = {chunk.count, hidden_size_, vocab_size_};
    const ConstValues x = normed.from(chunk.begin * hidden_size_);
    linear_forward(product, x, weight, logits);
    io.loss_sum +=
        cross_entropy(chunk.count, vocab_size_, io.labels + chunk.begin, io.loss_scale, logits);
    const Values d_logits = {dtype_, logits};
    if (dtype_ != DType::kFp32) narrow(chunk.count * vocab_size_, logits, d_logits);
    if (chunk.begin == 0) linear_weight_gradient(product, d_logits, x, d_weight);
    if (chunk.begin != 0) linear_weight_gradient_add(product, d_logits, x, d_weight);
    linear_input_gradient(product, d_logits, weight, d_normed + chunk.begin * hidden_size_);
  }
  rms_norm_backward(rows, hidden_size_, buffers.x, params, rstd, d_normed, nullptr, buffers.dx,
                    gradients);
}

void Head::logits(int64_t rows, ConstValues params, const float* x, const BlockBuffers& buffers,
                  float* out) const {
  const ScratchLayout temp = scratch_layout(rows, hidden_size_, vocab_size_);
  const Values normed = {dtype_, buffers.scratch + temp.normed};
  const ConstValues weight = is_tied_ ? buffers.tied_weight : params.from(hidden_size_);
  rms_norm_forward(rows, hidden_size_, eps_, x, params, normed, buffers.scratch + temp.rstd);
  linear_forward({rows, hidden_size_, vocab_size_}, normed, weight, out);
}

}  // namespace lockstep::runtime
