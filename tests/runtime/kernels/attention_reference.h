// Attention with a full score matrix in double precision, forward and backward. Keys outside of a
// row's document and window are masked away.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/kernels/attention.h"

namespace lockstep::runtime {

struct AttentionReference {
  std::vector<double> out, log_sum_exp, d_qkv;
};

inline AttentionReference attention_reference(const AttentionShape& shape,
                                              const std::vector<float>& qkv,
                                              const std::vector<float>& d_out) {
  const int64_t T = shape.seq, D = shape.head_dim, stride = shape.qkv_row_elems();
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  const double scale =
      shape.scale > 0 ? static_cast<double>(shape.scale) : 1 / std::sqrt(static_cast<double>(D));
  const auto cap = static_cast<double>(shape.softcap);
  AttentionReference ref{
      std::vector<double>(d_out.size()),
      std::vector<double>(static_cast<size_t>(shape.batch * shape.num_heads * T)),
      std::vector<double>(qkv.size())};
  const auto in = [](const std::vector<float>& v, int64_t i) {
    return static_cast<double>(v[static_cast<size_t>(i)]);
  };
  const auto row_of = [](std::vector<double>& v, int64_t i) { return v.data() + i; };
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.num_heads; ++h) {
      const int64_t key = (shape.num_heads + h / group) * D;
      const int64_t value = key + shape.num_kv_heads * D;
      for (int64_t i = 0; i < T; ++i) {
        const int64_t query = (b * T + i) * stride + h * D;
        const int64_t place = ((b * T + i) * shape.num_heads + h) * D;
        const int64_t begin = shape.positions ? i - shape.positions[b * T + i] : 0;
        const int64_t first = shape.window > 0 ? std::max(begin, i + 1 - shape.window) : begin;
        std::vector<double> p(static_cast<size_t>(i + 1)), dp(p.size()), slope(p.size(), 1);
        double top = -1e300, sum = 0, delta = 0;
        for (int64_t j = first; j <= i; ++j) {
          const int64_t row = (b * T + j) * stride;
          double& score = p[static_cast<size_t>(j)];
          for (int64_t d = 0; d < D; ++d) {
            score += scale * in(qkv, query + d) * in(qkv, row + key + d);
            dp[static_cast<size_t>(j)] += in(d_out, place + d) * in(qkv, row + value + d);
          }
          if (cap > 0) {
            const double capped = std::tanh(score / cap);
            slope[static_cast<size_t>(j)] = 1 - capped * capped;
            score = cap * capped;
          }
          top = std::max(top, score);
        }
        for (int64_t j = first; j <= i; ++j) {
          double& score = p[static_cast<size_t>(j)];
          sum += (score = std::exp(score - top));
        }
        for (size_t j = 0; j < p.size(); ++j) delta += (p[j] /= sum) * dp[j];
        *row_of(ref.log_sum_exp, (b * shape.num_heads + h) * T + i) =
            (top + std::log(sum)) / std::log(2.0);
        for (int64_t j = first; j <= i; ++j) {
          const int64_t row = (b * T + j) * stride;
          const double prob = p[static_cast<size_t>(j)];
          const double ds =
              prob * scale * (dp[static_cast<size_t>(j)] - delta) * slope[static_cast<size_t>(j)];
          for (int64_t d = 0; d < D; ++d) {
            *row_of(ref.out, place + d) += prob * in(qkv, row + value + d);
            *row_of(ref.d_qkv, query + d) += ds * in(qkv, row + key + d);
            *row_of(ref.d_qkv, row + key + d) += ds * in(qkv, query + d);
            *row_of(ref.d_qkv, row + value + d) += prob * in(d_out, place + d);
          }
        }
      }
    }
  }
  return ref;
}

}  // namespace lockstep::runtime
