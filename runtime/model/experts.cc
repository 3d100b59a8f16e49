#include "runtime/model/experts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

// The products of one expert on its rows.
struct ExpertSlice {
  int64_t begin = 0;  // its first pair
  LinearShape gate_up, down;
  int64_t gate_up_elem = 0, down_elem = 0;  // its weights, from the first expert's on
};

ExpertSlice slice_of(const ExpertsShape& shape, const Routing& routing, int64_t expert) {
  const int64_t begin = routing.begins[expert];
  const int64_t rows = routing.begins[expert + 1] - begin;
  const int64_t first = expert * shape.expert_elems();
  return {.begin = begin,
          .gate_up = {rows, shape.hidden, 2 * shape.ff},
          .down = {rows, shape.ff, shape.hidden},
          .gate_up_elem = first,
          .down_elem = first + 2 * shape.ff * shape.hidden};
}

Values from(Values values, int64_t elem) {
  return {values.dtype, static_cast<char*>(values.data) + elem * common::elem_bytes(values.dtype)};
}

// pairs[p] = in[row of p].
void gather(const ExpertsShape& shape, const Routing& routing, ConstValues in, Values pairs) {
  const auto row_bytes = static_cast<size_t>(shape.hidden * common::elem_bytes(in.dtype));
  for (int64_t pair = 0; pair < shape.pairs(); ++pair) {
    const int64_t row = routing.row_of[pair];
    std::memcpy(from(pairs, pair * shape.hidden).data, in.from(row * shape.hidden).data, row_bytes);
  }
}

// out[row of p] += factor of p * pairs[p], by rising expert.
//   weighs: by the pair's weight, else by 1.
void scatter_add(const ExpertsShape& shape, const Routing& routing, const float* pairs, bool weighs,
                 float* out) {
  for (int64_t pair = 0; pair < shape.pairs(); ++pair) {
    add_scaled(shape.hidden, weighs ? routing.weight_of[pair] : 1.0F, pairs + pair * shape.hidden,
               out + routing.row_of[pair] * shape.hidden);
  }
}

void narrow_unless_same(int64_t n, const float* wide, Values typed) {
  if (typed.data != wide) narrow(n, wide, typed);
}

// In one order on every processor.
double dot(int64_t n, const float* a, const float* b) {
  std::array<double, 8> sums{};
  constexpr auto kLanes = static_cast<int64_t>(sums.size());
  for (int64_t i = 0; i < n; i += kLanes) {
    for (int64_t lane = 0; lane < std::min(kLanes, n - i); ++lane) {
      sums[static_cast<size_t>(lane)] += static_cast<double>(a[i + lane]) * b[i + lane];
    }
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// The experts of one row, from its probabilities [E] to `chosen` [K].
void choose(const ExpertsShape& shape, const float* p, int32_t* chosen) {
  for (int32_t expert = 0; expert < shape.num_experts; ++expert) {
    int64_t place = std::min<int64_t>(expert, shape.per_token);
    if (place == shape.per_token) {
      if (!(p[expert] > p[chosen[place - 1]])) continue;
      --place;  // the last one falls out
    }
    for (; place > 0 && p[expert] > p[chosen[place - 1]]; --place)
      chosen[place] = chosen[place - 1];
    chosen[place] = expert;
  }
}

// What the probabilities of a row's experts are divided by.
double divisor(const ExpertsShape& shape, const float* p, const int32_t* chosen) {
  if (!shape.norms_top) return 1;
  double sum = 0;
  for (int64_t k = 0; k < shape.per_token; ++k) sum += p[chosen[k]];
  return sum;
}

// The gradient of the logits from that of each pair's weight.
void router_gradient(const ExpertsShape& shape, const ExpertBuffers& buffers) {
  const Routing& routing = buffers.routing;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* const p = buffers.probabilities + row * shape.num_experts;
    const int32_t* const chosen = routing.experts + row * shape.per_token;
    const int32_t* const pairs = routing.pair_of + row * shape.per_token;
    const double sum = divisor(shape, p, chosen);
    double mean = 0;  // of the gradient, over weights that were divided by their sum
    for (int64_t k = 0; shape.norms_top && k < shape.per_token; ++k) {
      mean += static_cast<double>(buffers.d_weights[pairs[k]]) * routing.weight_of[pairs[k]];
    }
    const auto d_probability = [&](int64_t k) {
      return (buffers.d_weights[pairs[k]] - mean) / sum;
    };
    double total = 0;
    for (int64_t k = 0; k < shape.per_token; ++k) total += d_probability(k) * p[chosen[k]];
    float* const out = buffers.wide_logits + row * shape.num_experts;
    for (int64_t e = 0; e < shape.num_experts; ++e) out[e] = static_cast<float>(-total * p[e]);
    for (int64_t k = 0; k < shape.per_token; ++k) {
      const int32_t e = chosen[k];
      out[e] = static_cast<float>((d_probability(k) - total) * p[e]);
    }
  }
}

// From the gradient of what the experts gave, in d_pairs without the weights: those of the weights,
// and that of the activation, in d_act. Leaves d_pairs weighted.
void weigh_gradients(const ExpertsShape& shape, const ExpertBuffers& buffers) {
  swiglu_forward(shape.pairs(), shape.ff, buffers.gate_up, buffers.act);
  for (int64_t pair = 0; pair < shape.pairs(); ++pair) {
    const ConstValues typed_act = buffers.act.from(pair * shape.ff);
    const float* act = static_cast<const float*>(typed_act.data);
    if (typed_act.dtype != DType::kFp32) {
      widen(shape.ff, typed_act, buffers.wide_gate_up);
      act = buffers.wide_gate_up;
    }
    float* const d_act = buffers.d_act + pair * shape.ff;
    float* const d_out = buffers.wide_pairs + pair * shape.hidden;
    const float weight = buffers.routing.weight_of[pair];
    buffers.d_weights[pair] = static_cast<float>(dot(shape.ff, d_act, act));
    scale(shape.ff, weight, d_act, d_act);
    scale(shape.hidden, weight, d_out, d_out);
  }
  narrow_unless_same(shape.pairs() * shape.hidden, buffers.wide_pairs, buffers.d_pairs);
}

// Gradients of one product's weights; an expert without a row has zeros.
void weight_gradient(const LinearShape& shape, ConstValues dy, ConstValues x, float* d_weight) {
  if (d_weight == nullptr) return;
  if (shape.rows == 0) {
    std::fill_n(d_weight, shape.in * shape.out, 0.0F);
    return;
  }
  linear_weight_gradient(shape, dy, x, d_weight);
}

}  // namespace

void route(const ExpertsShape& shape, const float* probabilities, const Routing& routing) {
  std::fill_n(routing.begins, shape.num_experts + 1, 0);
  for (int64_t row = 0; row < shape.rows; ++row) {
    int32_t* const chosen = routing.experts + row * shape.per_token;
    choose(shape, probabilities + row * shape.num_experts, chosen);
    for (int64_t k = 0; k < shape.per_token; ++k) ++routing.begins[chosen[k] + 1];
  }
  std::partial_sum(routing.begins, routing.begins + shape.num_experts + 1, routing.begins);
  // While pairs are handed out, begins[e] is the next one of e, and in the end the first of e + 1.
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* const p = probabilities + row * shape.num_experts;
    const int32_t* const chosen = routing.experts + row * shape.per_token;
    const double sum = divisor(shape, p, chosen);
    for (int64_t k = 0; k < shape.per_token; ++k) {
      const int32_t pair = routing.begins[chosen[k]]++;
      routing.row_of[pair] = static_cast<int32_t>(row);
      routing.weight_of[pair] = static_cast<float>(p[chosen[k]] / sum);
      routing.pair_of[row * shape.per_token + k] = pair;
    }
  }
  std::copy_backward(routing.begins, routing.begins + shape.num_experts,
                     routing.begins + shape.num_experts + 1);
  routing.begins[0] = 0;
}

void experts_forward(const ExpertsShape& shape, ConstValues in, const ExpertWeights& weights,
                     const ExpertBuffers& buffers, float* part) {
  linear_forward({shape.rows, shape.hidden, shape.num_experts}, in, weights.router,
                 buffers.probabilities);
  softmax(shape.rows, shape.num_experts, buffers.probabilities);
  const Routing& routing = buffers.routing;
  route(shape, buffers.probabilities, routing);
  gather(shape, routing, in, buffers.pairs_in);
  for (int64_t expert = 0; expert < shape.num_experts; ++expert) {
    const ExpertSlice slice = slice_of(shape, routing, expert);
    if (slice.gate_up.rows == 0) continue;
    linear_forward(slice.gate_up, buffers.pairs_in.from(slice.begin * shape.hidden),
                   weights.first.from(slice.gate_up_elem),
                   buffers.wide_gate_up + slice.begin * 2 * shape.ff);
  }
  narrow_unless_same(shape.pairs() * 2 * shape.ff, buffers.wide_gate_up, buffers.gate_up);
  swiglu_forward(shape.pairs(), shape.ff, buffers.gate_up, buffers.act);
  for (int64_t expert = 0; expert < shape.num_experts; ++expert) {
    const ExpertSlice slice = slice_of(shape, routing, expert);
    if (slice.down.rows == 0) continue;
    linear_forward(slice.down, buffers.act.from(slice.begin * shape.ff),
                   weights.first.from(slice.down_elem),
                   buffers.wide_pairs + slice.begin * shape.hidden);
  }
  std::fill_n(part, shape.rows * shape.hidden, 0.0F);
  scatter_add(shape, routing, buffers.wide_pairs, /*weighs=*/true, part);
}

void experts_backward(const ExpertsShape& shape, ConstValues in, const ExpertWeights& weights,
                      const ExpertBuffers& buffers, const float* dy,
                      const ExpertGradients& gradients, float* d_in) {
  const Routing& routing = buffers.routing;
  const int64_t hidden = shape.hidden;
  const int64_t ff = shape.ff;
  gather(shape, routing, in, buffers.pairs_in);
  gather(shape, routing, dy, buffers.wide_pairs);
  narrow_unless_same(shape.pairs() * hidden, buffers.wide_pairs, buffers.d_pairs);
  for (int64_t expert = 0; expert < shape.num_experts; ++expert) {
    const ExpertSlice slice = slice_of(shape, routing, expert);
    if (slice.down.rows == 0) continue;
    linear_input_gradient(slice.down, buffers.d_pairs.from(slice.begin * hidden),
                          weights.first.from(slice.down_elem), buffers.d_act + slice.begin * ff);
  }
  weigh_gradients(shape, buffers);
  swiglu_backward(shape.pairs(), ff, buffers.gate_up, buffers.d_act, buffers.gate_up, buffers.act);
  for (int64_t expert = 0; expert < shape.num_experts; ++expert) {
    const ExpertSlice slice = slice_of(shape, routing, expert);
    const ConstValues d_gate_up = buffers.gate_up.from(slice.begin * 2 * ff);
    weight_gradient(slice.down, buffers.d_pairs.from(slice.begin * hidden),
                    buffers.act.from(slice.begin * ff), at(gradients.first, slice.down_elem));
    weight_gradient(slice.gate_up, d_gate_up, buffers.pairs_in.from(slice.begin * hidden),
                    at(gradients.first, slice.gate_up_elem));
    if (slice.gate_up.rows == 0) continue;
    linear_input_gradient(slice.gate_up, d_gate_up, weights.first.from(slice.gate_up_elem),
                          buffers.wide_pairs + slice.begin * hidden);
  }
  router_gradient(shape, buffers);
  narrow_unless_same(shape.rows * shape.num_experts, buffers.wide_logits, buffers.d_logits);
  const LinearShape router = {shape.rows, hidden, shape.num_experts};
  weight_gradient(router, buffers.d_logits, in, gradients.router);
  linear_input_gradient(router, buffers.d_logits, weights.router, d_in);
  scatter_add(shape, routing, buffers.wide_pairs, /*weighs=*/false, d_in);
}

}  // namespace lockstep::runtime
