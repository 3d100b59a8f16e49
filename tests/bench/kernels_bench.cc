// Prints the speed of each kernel at two sizes of model, the gain of the attention kernels over a
// naive loop, and each kernel's share of a training step.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "runtime/kernels/attention.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/kernels/gemm.h"

namespace lockstep::runtime {
namespace {

struct ModelSize {
  const char* name;
  int64_t batch, seq, hidden, heads, kv_heads, head_dim, ff, vocab, layers;
  int64_t rows() const { return batch * seq; }
  int64_t qkv() const { return (heads + 2 * kv_heads) * head_dim; }
  AttentionShape attention() const { return {batch, seq, heads, kv_heads, head_dim}; }
};

// One line of the table: `work` operations or bytes of a call, and how often a step calls it.
struct Line {
  std::string name;
  double work;
  const char* unit;
  int64_t calls_per_step;
  std::function<void()> call;
};

std::vector<float> filled(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 2654435761U % 1000) / 1000.0F - 0.5F;
  }
  return values;
}

// Best of at least 7 calls and 0.1 s.
double seconds_per_call(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9, total = 0;
  for (int i = 0; i < 7 || total < 0.1; ++i) {
    const Clock::time_point begin = Clock::now();
    call();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

// softmax(causal(q k)) v with plain loops, one query at a time.
void naive_attention(const AttentionShape& shape, const float* qkv, float* out) {
  const int64_t stride = shape.qkv_row_elems(), dim = shape.head_dim;
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  std::vector<float> p(static_cast<size_t>(shape.seq));
  for (int64_t item = 0; item < shape.batch * shape.num_heads * shape.seq; ++item) {
    const int64_t i = item % shape.seq, h = item / shape.seq % shape.num_heads;
    const int64_t first = item / shape.seq / shape.num_heads * shape.seq;
    const float* const q = qkv + (first + i) * stride + h * dim;
    const float* const k = qkv + first * stride + (shape.num_heads + h / group) * dim;
    const float* const v = k + shape.num_kv_heads * dim;
    float* const o = out + ((first + i) * shape.num_heads + h) * dim;
    float top = -1e30F, sum = 0;
    for (int64_t j = 0; j <= i; ++j) {
      float score = 0;
      for (int64_t d = 0; d < dim; ++d) score += q[d] * k[j * stride + d];
      p[static_cast<size_t>(j)] = score * scale;
      top = std::max(top, score * scale);
    }
    std::fill(o, o + dim, 0.0F);
    for (int64_t j = 0; j <= i; ++j) {
      const float weight = std::exp(p[static_cast<size_t>(j)] - top);
      sum += weight;
      for (int64_t d = 0; d < dim; ++d) o[d] += weight * v[j * stride + d];
    }
    for (int64_t d = 0; d < dim; ++d) o[d] /= sum;
  }
}

// The buffers that the lines below share.
struct Buffers {
  explicit Buffers(const ModelSize& size)
      : wide(filled(size.rows() * std::max({size.qkv(), 2 * size.ff, size.vocab}))),
        wide2(wide),
        narrow(filled(size.rows() * std::max(size.ff, size.heads * size.head_dim))),
        narrow2(narrow),
        narrow3(narrow),
        weights(filled(size.hidden * std::max({size.qkv(), 2 * size.ff, size.vocab}))),
        gradients(weights),
        moment1(weights),
        moment2(weights.size(), 0.1F),
        rows(filled(std::max(size.rows() * size.heads, size.hidden))),
        table(static_cast<size_t>(size.seq * size.head_dim)),
        scratch(static_cast<size_t>(attention_scratch_elems(size.attention()))),
        sums(weights.size() / static_cast<size_t>(kNormChunkElems) + 1),
        labels(static_cast<size_t>(size.rows()), 1) {
    rotary_table(size.seq, size.head_dim, 10000, table.data());
  }
  std::vector<float> wide, wide2, narrow, narrow2, narrow3, weights, gradients, moment1, moment2;
  std::vector<float> rows, table, scratch;
  std::vector<double> sums;
  std::vector<int32_t> labels;
};

// Forward, input gradient and weight gradient of y [R, out] = x [R, in] W^T.
void add_linear(std::vector<Line>& lines, const std::string& name, int64_t rows, int64_t in,
                int64_t out, int64_t calls, Buffers& at) {
  const double flops = 2e-9 * static_cast<double>(rows * in * out);
  const ConstMatrix x{at.narrow.data(), in}, weight{at.weights.data(), in};
  const ConstMatrix dy{at.wide.data(), out};
  lines.push_back(
      {"gemm " + name + " forward", flops, "GFLOP/s", calls, [=, &at] {
         gemm({rows, out, in}, x, {weight.data, in, Transpose::kYes}, 0, at.wide2.data(), out);
       }});
  lines.push_back({"gemm " + name + " input gradient", flops, "GFLOP/s", calls, [=, &at] {
                     gemm({rows, in, out}, dy, weight, 0, at.narrow2.data(), in);
                   }});
  lines.push_back(
      {"gemm " + name + " weight gradient", flops, "GFLOP/s", calls, [=, &at] {
         gemm({out, in, rows}, {dy.data, out, Transpose::kYes}, x, 0, at.gradients.data(), in);
       }});
}

void add_attention(std::vector<Line>& lines, const ModelSize& size, Buffers& at) {
  const AttentionShape shape = size.attention();
  const double products =
      2e-9 * static_cast<double>(size.rows() * size.seq / 2 * size.heads * size.head_dim);
  lines.push_back({"attention forward", 2 * products, "GFLOP/s", size.layers, [=, &at] {
                     attention_forward(shape, at.wide.data(), at.narrow.data(), at.rows.data(),
                                       at.scratch.data());
                   }});
  lines.push_back({"attention backward", 5 * products, "GFLOP/s", size.layers, [=, &at] {
                     attention_backward(shape, at.wide.data(), at.narrow.data(), at.rows.data(),
                                        at.narrow2.data(), at.wide2.data(), at.scratch.data());
                   }});
  lines.push_back({"attention forward, naive loop", 2 * products, "GFLOP/s", 0,
                   [=, &at] { naive_attention(shape, at.wide.data(), at.narrow3.data()); }});
}

void add_elementwise(std::vector<Line>& lines, const ModelSize& size, Buffers& at) {
  const int64_t rows = size.rows(), hidden = size.hidden, ff = size.ff;
  const auto gigabytes = [](int64_t elems) { return 4e-9 * static_cast<double>(elems); };
  const RotaryShape turn{size.batch, size.seq, size.heads + size.kv_heads, size.head_dim,
                         size.qkv()};
  const int64_t turned = 2 * rows * turn.num_heads * turn.head_dim;
  const int64_t n = static_cast<int64_t>(at.weights.size());
  const int64_t norms = 2 * size.layers + 1;
  lines.push_back({"rms_norm forward", gigabytes(2 * rows * hidden), "GB/s", norms, [=, &at] {
                     rms_norm_forward(rows, hidden, 1e-5F, at.narrow.data(), at.weights.data(),
                                      at.narrow2.data(), at.rows.data());
                   }});
  lines.push_back({"rms_norm backward", gigabytes(4 * rows * hidden), "GB/s", norms, [=, &at] {
                     rms_norm_backward(rows, hidden, at.narrow.data(), at.weights.data(),
                                       at.rows.data(), at.narrow2.data(), at.wide.data(),
                                       at.narrow3.data(), at.gradients.data());
                   }});
  lines.push_back({"rotary", gigabytes(turned), "GB/s", 2 * size.layers,
                   [=, &at] { rotary_forward(turn, at.table.data(), at.wide.data()); }});
  lines.push_back({"swiglu forward", gigabytes(3 * rows * ff), "GB/s", size.layers,
                   [=, &at] { swiglu_forward(rows, ff, at.wide.data(), at.narrow.data()); }});
  lines.push_back({"swiglu backward", gigabytes(6 * rows * ff), "GB/s", size.layers, [=, &at] {
                     swiglu_backward(rows, ff, at.wide.data(), at.narrow.data(), at.wide2.data(),
                                     at.narrow2.data());
                   }});
  lines.push_back({"cross_entropy", gigabytes(2 * rows * size.vocab), "GB/s", 1, [=, &at] {
                     cross_entropy(rows, size.vocab, at.labels.data(), 1, at.wide2.data());
                   }});
  lines.push_back({"add_in_place", gigabytes(3 * rows * hidden), "GB/s", 2 * size.layers,
                   [=, &at] { add_in_place(rows * hidden, at.narrow.data(), at.narrow3.data()); }});
  lines.push_back({"adamw", gigabytes(7 * n), "GB/s", size.layers, [=, &at] {
                     const AdamStep step{.lr = 1e-6, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
                     adamw(step, n, at.gradients.data(), at.weights.data(), at.moment1.data(),
                           at.moment2.data());
                   }});
  lines.push_back({"sum_squares_chunks", gigabytes(n), "GB/s", size.layers,
                   [=, &at] { sum_squares_chunks(n, at.gradients.data(), at.sums.data()); }});
}

void print_speeds(const ModelSize& size) {
  Buffers at(size);
  std::vector<Line> lines;
  const int64_t rows = size.rows(), hidden = size.hidden;
  add_attention(lines, size, at);
  add_elementwise(lines, size, at);
  add_linear(lines, "qkv", rows, hidden, size.qkv(), size.layers, at);
  add_linear(lines, "attention out", rows, size.heads * size.head_dim, hidden, size.layers, at);
  add_linear(lines, "gate and up", rows, hidden, 2 * size.ff, size.layers, at);
  add_linear(lines, "down", rows, size.ff, hidden, size.layers, at);
  add_linear(lines, "head", rows, hidden, size.vocab, 1, at);
  std::vector<double> seconds;
  double step = 0;
  for (const Line& line : lines) {
    seconds.push_back(seconds_per_call(line.call));
    step += seconds.back() * static_cast<double>(line.calls_per_step);
  }
  std::printf("%s: %lld rows, hidden %lld, one step of one micro-batch %.2f ms\n", size.name,
              static_cast<long long>(rows), static_cast<long long>(hidden), 1e3 * step);
  for (size_t i = 0; i < lines.size(); ++i) {
    const double share = seconds[i] * static_cast<double>(lines[i].calls_per_step) / step;
    std::printf("  %-34s %9.1f us %8.1f %-8s %5.1f %%\n", lines[i].name.c_str(), 1e6 * seconds[i],
                lines[i].work / seconds[i], lines[i].unit, 100 * share);
  }
  std::printf("  attention forward is %.1f times as fast as the naive loop\n\n",
              seconds[2] / seconds[0]);
}

}  // namespace
}  // namespace lockstep::runtime

int main() {
  using lockstep::runtime::print_speeds;
  std::printf("instruction set %s\n", lockstep::runtime::kernel_isa());
  print_speeds({.name = "quickstart",
                .batch = 1,
                .seq = 256,
                .hidden = 192,
                .heads = 6,
                .kv_heads = 2,
                .head_dim = 32,
                .ff = 512,
                .vocab = 256,
                .layers = 4});
  print_speeds({.name = "larger",
                .batch = 4,
                .seq = 512,
                .hidden = 512,
                .heads = 8,
                .kv_heads = 4,
                .head_dim = 64,
                .ff = 1408,
                .vocab = 256,
                .layers = 4});
  return 0;
}
