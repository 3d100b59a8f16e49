#include "runtime/model/linear.h"

#include "runtime/kernels/elementwise.h"
#include "runtime/kernels/gemm.h"

namespace lockstep::runtime {
namespace {

void product_with_transposed_weight(const LinearShape& shape, ConstValues x, ConstValues weight,
                                    float beta, float* y) {
  const auto lies = shape.is_in_by_out ? Transpose::kNo : Transpose::kYes;
  gemm({.m = shape.rows, .n = shape.out, .k = shape.in}, {.data = x, .leading = shape.in},
       {.data = weight, .leading = shape.is_in_by_out ? shape.out : shape.in, .transpose = lies},
       beta, y, shape.out);
}

void product_of_rows(const LinearShape& shape, ConstValues dy, ConstValues x, float beta,
                     float* d_weight) {
  if (d_weight == nullptr) return;
  if (shape.is_in_by_out) {
    gemm({.m = shape.in, .n = shape.out, .k = shape.rows},
         {.data = x, .leading = shape.in, .transpose = Transpose::kYes},
         {.data = dy, .leading = shape.out}, beta, d_weight, shape.out);
    return;
  }
  gemm({.m = shape.out, .n = shape.in, .k = shape.rows},
       {.data = dy, .leading = shape.out, .transpose = Transpose::kYes},
       {.data = x, .leading = shape.in}, beta, d_weight, shape.in);
}

}  // namespace

void linear_forward(const LinearShape& shape, ConstValues x, ConstValues weight, float* y) {
  product_with_transposed_weight(shape, x, weight, 0.0f, y);
}

void linear_forward_add(const LinearShape& shape, ConstValues x, ConstValues weight, float* y) {
  product_with_transposed_weight(shape, x, weight, 1.0f, y);
}

void linear_input_gradient(const LinearShape& shape, ConstValues dy, ConstValues weight,
                           float* dx) {
  gemm({.m = shape.rows, .n = shape.in, .k = shape.out}, {.data = dy, .leading = shape.out},
       {.data = weight,
        .leading = shape.is_in_by_out ? shape.out : shape.in,
        .transpose = shape.is_in_by_out ? Transpose::kYes : Transpose::kNo},
       0.0f, dx, shape.in);
}

void linear_weight_gradient(const LinearShape& shape, ConstValues dy, ConstValues x,
                            float* d_weight) {
  product_of_rows(shape, dy, x, 0.0f, d_weight);
}

void linear_weight_gradient_add(const LinearShape& shape, ConstValues dy, ConstValues x,
                                float* d_weight) {
  product_of_rows(shape, dy, x, 1.0f, d_weight);
}

void add_bias(const LinearShape& shape, ConstValues bias, float* y, float* wide) {
  widen(shape.out, bias, wide);
  add_to_rows(shape.rows, shape.out, wide, y);
}

void bias_gradient(const LinearShape& shape, ConstValues dy, float* d_bias) {
  if (d_bias != nullptr) sum_columns(shape.rows, shape.out, dy, d_bias);
}

}  // namespace lockstep::runtime
