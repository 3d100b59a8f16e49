#include "runtime/model/linear.h"

#include "runtime/kernels/gemm.h"

namespace lockstep::runtime {
namespace {

void product_with_transposed_weight(const LinearShape& shape, ConstValues x, ConstValues weight,
                                    float beta, float* y) {
  gemm({.m = shape.rows, .n = shape.out, .k = shape.in}, {.data = x, .leading = shape.in},
       {.data = weight, .leading = shape.in, .transpose = Transpose::kYes}, beta, y, shape.out);
}

void product_of_rows(const LinearShape& shape, ConstValues dy, ConstValues x, float beta,
                     float* d_weight) {
  if (d_weight == nullptr) return;
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
       {.data = weight, .leading = shape.in}, 0.0f, dx, shape.in);
}

void linear_weight_gradient(const LinearShape& shape, ConstValues dy, ConstValues x,
                            float* d_weight) {
  product_of_rows(shape, dy, x, 0.0f, d_weight);
}

void linear_weight_gradient_add(const LinearShape& shape, ConstValues dy, ConstValues x,
                                float* d_weight) {
  product_of_rows(shape, dy, x, 1.0f, d_weight);
}

}  // namespace lockstep::runtime
