#include "runtime/model/score_head.h"

#include <stdexcept>
#include <string>

#include "runtime/common/buffer_layout.h"
#include "runtime/kernels/device.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/linear.h"

namespace lockstep::runtime {
namespace {

// One of each sequence, and one of what is behind the last of them.
int64_t most_scores(const BatchShape& shape) {
  return shape.batch + 1;
}

const std::vector<int64_t>& ends_of_spans(const BatchShape& shape, const MicroBatchIo& io) {
  if (io.span_loss == nullptr) {
    throw std::invalid_argument("score: the micro-batch does not say which rows to score");
  }
  const std::vector<int64_t>& ends = io.span_loss->ends;
  const auto most = static_cast<size_t>(most_scores(shape));
  if (ends.size() <= most) return ends;
  throw std::invalid_argument("score: " + std::to_string(ends.size()) + " spans, at most " +
                              std::to_string(most) + " expected");
}

}  // namespace

// S: scores, at most most_scores().
struct ScoreHead::Scratch {
  int64_t rows = 0;      // [S, hidden], those of x that are scored
  int64_t normed = 0;    // [S, hidden], of the type of computation
  int64_t d_normed = 0;  // [S, hidden], then the gradient of the rows
  int64_t stats = 0;     // of the norm
  int64_t wide = 0;      // of the norm
  int64_t scores = 0;    // [S], then their gradient
  int64_t rounded = 0;   // [S], the gradient of the type of computation
  int64_t num_elems = 0;
};

ScoreHead::ScoreHead(const common::ModelConfig& config, DType dtype)
    : hidden_size_(config.hidden_size),
      dtype_(dtype),
      norm_(config, config.hidden_size),
      unit_(head_unit(config)) {}

ScoreHead::Scratch ScoreHead::scratch_layout(const BatchShape& shape) const {
  const int64_t count = most_scores(shape);
  common::Layout layout;
  Scratch scratch;
  scratch.rows = layout.take(count * hidden_size_);
  scratch.normed = layout.take(count * hidden_size_);
  scratch.d_normed = layout.take(count * hidden_size_);
  scratch.stats = layout.take(norm_.stats_elems(count));
  scratch.wide = layout.take(norm_.wide_elems());
  scratch.scores = layout.take(count);
  scratch.rounded = layout.take(count);
  scratch.num_elems = layout.num_elems();
  return scratch;
}

int64_t ScoreHead::scratch_elems(const BatchShape& shape) const {
  return scratch_layout(shape).num_elems;
}

std::vector<double> ScoreHead::score(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                                     const BlockBuffers& buffers) const {
  const std::vector<int64_t>& ends = ends_of_spans(shape, io);
  const auto count = static_cast<int64_t>(ends.size());
  const Scratch temp = scratch_layout(shape);
  float* const rows = buffers.scratch + temp.rows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = ends[static_cast<size_t>(i)] - 1;
    copy_floats(hidden_size_, buffers.x + row * hidden_size_, rows + i * hidden_size_);
  }
  const Values normed = {dtype_, buffers.scratch + temp.normed};
  norm_.forward(count, rows, params, normed, buffers.scratch + temp.stats,
                buffers.scratch + temp.wide);
  float* const scores = buffers.scratch + temp.scores;
  linear_forward({count, hidden_size_, 1}, normed, params.from(unit_.tensors.back().begin_elem),
                 scores);
  std::vector<float> told(ends.size());
  copy_floats(count, scores, told.data());
  const std::vector<double> sums(told.begin(), told.end());
  std::vector<double> weights(ends.size(), 0.0);
  io.loss_sum = io.span_loss->weigh(sums, weights);
  return weights;
}

void ScoreHead::forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                        const BlockBuffers& buffers) const {
  score(shape, params, io, buffers);
}

// See Note [Scores of spans].
void ScoreHead::backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                         const BlockBuffers& buffers, float* gradients) const {
  std::vector<float> d_scores;
  for (const double weight : score(shape, params, io, buffers)) {
    d_scores.push_back(io.loss_scale * static_cast<float>(weight));
  }
  const std::vector<int64_t>& ends = io.span_loss->ends;
  const auto count = static_cast<int64_t>(ends.size());
  const Scratch temp = scratch_layout(shape);
  float* const rows = buffers.scratch + temp.rows;
  float* const d_rows = buffers.scratch + temp.d_normed;
  float* const wide_gradient = buffers.scratch + temp.scores;
  copy_floats(count, d_scores.data(), wide_gradient);
  const bool is_mixed = dtype_ != DType::kFp32;
  const Values gradient = {dtype_, is_mixed ? buffers.scratch + temp.rounded : wide_gradient};
  if (is_mixed) narrow(count, wide_gradient, gradient);

  const LinearShape product = {count, hidden_size_, 1};
  const int64_t weight = unit_.tensors.back().begin_elem;
  linear_weight_gradient(product, gradient, Values{dtype_, buffers.scratch + temp.normed},
                         at(gradients, weight));
  linear_input_gradient(product, gradient, params.from(weight), d_rows);
  norm_.backward(count, rows, params, buffers.scratch + temp.stats, d_rows, nullptr, d_rows,
                 gradients, buffers.scratch + temp.wide);
  clear_floats(shape.rows() * hidden_size_, buffers.dx);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = ends[static_cast<size_t>(i)] - 1;
    copy_floats(hidden_size_, d_rows + i * hidden_size_, buffers.dx + row * hidden_size_);
  }
}

}  // namespace lockstep::runtime
