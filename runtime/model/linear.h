// y = x W^T with W stored [out, in] as Hugging Face does (of gpt2 [in, out]), a bias, and their
// gradients. The operands of one call are of one type; results are fp32.
#pragma once

#include <cstdint>

#include "runtime/kernels/typed_values.h"

namespace lockstep::runtime {

struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  bool is_in_by_out = false;  // weight and its gradient are [in, out]
};

// Where a tensor at `begin_elem` of a unit has its gradient; null in a unit that is frozen.
inline float* at(float* gradients, int64_t begin_elem) {
  return gradients == nullptr ? nullptr : gradients + begin_elem;
}

// y = x W^T.
//   x: [rows, in]; weight: [out, in]; y: [rows, out], written.
void linear_forward(const LinearShape& shape, ConstValues x, ConstValues weight, float* y);

// y += x W^T; arguments as in linear_forward().
void linear_forward_add(const LinearShape& shape, ConstValues x, ConstValues weight, float* y);

// dx = dy W.
//   dy: [rows, out]; weight: [out, in]; dx: [rows, in], written.
void linear_input_gradient(const LinearShape& shape, ConstValues dy, ConstValues weight, float* dx);

// dW = dy^T x.
//   dy: [rows, out]; x: [rows, in]; d_weight: [out, in], written; null: nothing is done.
void linear_weight_gradient(const LinearShape& shape, ConstValues dy, ConstValues x,
                            float* d_weight);

// dW += dy^T x; arguments as in linear_weight_gradient().
void linear_weight_gradient_add(const LinearShape& shape, ConstValues dy, ConstValues x,
                                float* d_weight);

// y += bias in every row.
//   y: [rows, out]; bias: [out]; wide: [out] scratch.
void add_bias(const LinearShape& shape, ConstValues bias, float* y, float* wide);

// The sum of the rows of dy, [rows, out], as sum_columns() takes it.
//   d_bias: [out], written; null: nothing is done.
void bias_gradient(const LinearShape& shape, ConstValues dy, float* d_bias);

}  // namespace lockstep::runtime
