#include "runtime/model/head.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/common/buffer_layout.h"
#include "runtime/kernels/device.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/linear.h"

namespace lockstep::runtime {
namespace {

struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;
};

std::vector<RowRange> loss_chunks(int64_t rows, int64_t vocab) {
  const int64_t most = device().row_factor * loss_chunk_rows(vocab);
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

// The loss of a chunk without spans, whose logits become their gradient.
double loss_of_chunk(const RowRange& chunk, int64_t vocab, const MicroBatchIo& io, float* logits) {
  const int32_t* const labels = io.on_device().labels + chunk.begin;
  if (io.distillation == nullptr) {
    return cross_entropy(chunk.count, vocab, labels, io.loss_scale, logits);
  }
  float* const teacher = io.distillation->logits(chunk.begin, chunk.count);
  return distill(chunk.count, vocab, labels, io.distillation->factors, io.loss_scale, teacher,
                 logits);
}

// Sums the cross-entropy of a chunk, whose logits become their gradient, span by span.
//   scales: of each span, what its gradients are multiplied by.
//   sums: of each span; added to.
void add_span_losses(const RowRange& chunk, int64_t vocab, const MicroBatchIo& io,
                     const std::vector<float>& scales, float* logits, std::vector<double>& sums) {
  const std::vector<int64_t>& ends = io.span_loss->ends;
  const int64_t chunk_end = chunk.begin + chunk.count;
  int64_t row = chunk.begin;
  auto span =
      static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
  for (; row < chunk_end; row = std::min(ends[span++], chunk_end)) {
    const int64_t count = std::min(ends[span], chunk_end) - row;
    sums[span] += cross_entropy(count, vocab, io.on_device().labels + row, scales[span],
                                logits + (row - chunk.begin) * vocab);
  }
}

}  // namespace

struct Head::Scratch {
  int64_t normed = 0;    // [rows, hidden], of the type of computation
  int64_t d_normed = 0;  // [rows, hidden]
  int64_t stats = 0;     // of the norm
  int64_t wide = 0;      // of the norm
  int64_t logits = 0;    // [rows of a chunk, vocab], then their gradient
  int64_t capped = 0;    // the same, kept for the gradient of the soft-cap
  int64_t rounded = 0;   // the gradient, of the type of computation
  int64_t num_elems = 0;
};

Head::Head(const common::ModelConfig& config, DType dtype)
    : vocab_size_(config.vocab_size),
      hidden_size_(config.hidden_size),
      is_tied_(config.tie_word_embeddings),
      dtype_(dtype),
      norm_(config, config.hidden_size),
      logit_factor_(static_cast<float>(1 / config.logits_scaling)),
      softcap_(static_cast<float>(config.logit_softcap)),
      unit_(head_unit(config)) {}

Head::Scratch Head::scratch_layout(int64_t rows) const {
  const int64_t most = device().row_factor * loss_chunk_rows(vocab_size_);
  const int64_t chunk = std::min(rows, most) * vocab_size_;
  common::Layout layout;
  Scratch scratch;
  scratch.normed = layout.take(rows * hidden_size_);
  scratch.d_normed = layout.take(rows * hidden_size_);
  scratch.stats = layout.take(norm_.stats_elems(rows));
  scratch.wide = layout.take(norm_.wide_elems());
  scratch.logits = layout.take(chunk);
  scratch.capped = layout.take(softcap_ > 0 ? chunk : 0);
  // A processor rounds in place; a device would take a kernel for every doubling of a range.
  scratch.rounded = scratch.logits;
  if (device().has_own_memory && dtype_ != DType::kFp32)
    scratch.rounded = layout.take((chunk + 1) / 2);
  scratch.num_elems = layout.num_elems();
  return scratch;
}

int64_t Head::scratch_elems(const BatchShape& shape) const {
  return scratch_layout(shape.rows()).num_elems;
}

ConstValues Head::lm_head(ConstValues params, const BlockBuffers& buffers) const {
  return is_tied_ ? buffers.tied_weight : params.from(unit_.tensors.back().begin_elem);
}

void Head::make_logits(int64_t rows, ConstValues x, ConstValues weight, float* out) const {
  linear_forward({rows, hidden_size_, vocab_size_}, x, weight, out);
  if (logit_factor_ != 1) scale(rows * vocab_size_, logit_factor_, out, out);
  if (softcap_ > 0) softcap_forward(rows * vocab_size_, softcap_, out);
}

void Head::forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                   const BlockBuffers& buffers) const {
  require_labels(shape, io.labels, vocab_size_);
  const int64_t rows = shape.rows();
  const Scratch temp = scratch_layout(rows);
  const Values normed = {dtype_, buffers.scratch + temp.normed};
  float* const logits = buffers.scratch + temp.logits;
  const ConstValues weight = lm_head(params, buffers);
  norm_.forward(rows, buffers.x, params, normed, buffers.scratch + temp.stats,
                buffers.scratch + temp.wide);
  if (io.span_loss != nullptr) {
    weigh_spans(rows, normed, weight, io, logits);
    return;
  }
  io.loss_sum = 0;
  for (const RowRange& chunk : loss_chunks(rows, vocab_size_)) {
    make_logits(chunk.count, normed.from(chunk.begin * hidden_size_), weight, logits);
    io.loss_sum += loss_of_chunk(chunk, vocab_size_, io, logits);
  }
}

std::vector<double> Head::weigh_spans(int64_t rows, ConstValues normed, ConstValues weight,
                                      MicroBatchIo& io, float* logits) const {
  const std::size_t num_spans = io.span_loss->ends.size();
  std::vector<double> sums(num_spans, 0.0);
  const std::vector<float> no_scales(num_spans, 0.0F);
  for (const RowRange& chunk : loss_chunks(rows, vocab_size_)) {
    make_logits(chunk.count, normed.from(chunk.begin * hidden_size_), weight, logits);
    add_span_losses(chunk, vocab_size_, io, no_scales, logits, sums);
  }
  std::vector<double> weights(num_spans, 0.0);
  io.loss_sum = io.span_loss->weigh(sums, weights);
  return weights;
}

// See Note [Logits by chunks of rows].
void Head::backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                    const BlockBuffers& buffers, float* gradients) const {
  require_labels(shape, io.labels, vocab_size_);
  const int64_t rows = shape.rows();
  const Scratch temp = scratch_layout(rows);
  float* const stats = buffers.scratch + temp.stats;
  float* const wide = buffers.scratch + temp.wide;
  const Values normed = {dtype_, buffers.scratch + temp.normed};
  float* const d_normed = buffers.scratch + temp.d_normed;
  float* const logits = buffers.scratch + temp.logits;
  float* const capped = buffers.scratch + temp.capped;
  const ConstValues weight = lm_head(params, buffers);
  float* const d_weight =
      is_tied_ ? buffers.tied_gradient : at(gradients, unit_.tensors.back().begin_elem);

  norm_.forward(rows, buffers.x, params, normed, stats, wide);
  io.loss_sum = 0;
  std::vector<float> scales;  // of spans
  if (io.span_loss != nullptr) {
    for (const double span_weight : weigh_spans(rows, normed, weight, io, logits)) {
      scales.push_back(io.loss_scale * static_cast<float>(span_weight));
    }
  }
  std::vector<double> sums(scales.size(), 0.0);
  for (const RowRange& chunk : loss_chunks(rows, vocab_size_)) {
    const LinearShape product = {chunk.count, hidden_size_, vocab_size_};
    const int64_t num_logits = chunk.count * vocab_size_;
    const ConstValues x = normed.from(chunk.begin * hidden_size_);
    make_logits(chunk.count, x, weight, logits);
    if (softcap_ > 0) copy_floats(num_logits, logits, capped);
    if (io.span_loss != nullptr) {
      add_span_losses(chunk, vocab_size_, io, scales, logits, sums);
    } else {
      io.loss_sum += loss_of_chunk(chunk, vocab_size_, io, logits);
    }
    if (softcap_ > 0) softcap_backward(num_logits, softcap_, capped, logits);
    if (logit_factor_ != 1) scale(num_logits, logit_factor_, logits, logits);
    const bool is_mixed = dtype_ != DType::kFp32;
    const Values d_logits = {dtype_, is_mixed ? buffers.scratch + temp.rounded : logits};
    if (is_mixed) narrow(num_logits, logits, d_logits);
    if (chunk.begin == 0) linear_weight_gradient(product, d_logits, x, d_weight);
    if (chunk.begin != 0) linear_weight_gradient_add(product, d_logits, x, d_weight);
    linear_input_gradient(product, d_logits, weight, d_normed + chunk.begin * hidden_size_);
  }
  norm_.backward(rows, buffers.x, params, stats, d_normed, nullptr, buffers.dx, gradients, wide);
}

void Head::logits(int64_t rows, ConstValues params, const float* x, const BlockBuffers& buffers,
                  float* out) const {
  const Scratch temp = scratch_layout(rows);
  const Values normed = {dtype_, buffers.scratch + temp.normed};
  norm_.forward(rows, x, params, normed, buffers.scratch + temp.stats, buffers.scratch + temp.wide);
  make_logits(rows, normed, lm_head(params, buffers), out);
}

}  // namespace lockstep::runtime
