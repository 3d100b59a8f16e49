// A row-major product in the words of cuBLAS, which counts by columns.
#pragma once

#include "runtime/kernels/gemm.h"

namespace lockstep::runtime {

// first, second: what cuBLAS calls A and B; `transpose` as it takes it, `leading` the distance of
// columns. Its C is [shape.m, shape.n] by columns.
struct CublasCall {
  GemmShape shape;
  ConstMatrix first;
  ConstMatrix second;
};

// A row-major matrix read by columns is its transpose, and (A B)^T = B^T A^T: the operands change
// places, and so do the rows and columns of C.
constexpr CublasCall cublas_call(const GemmShape& shape, ConstMatrix a, ConstMatrix b) {
  return {.shape = {.m = shape.n, .n = shape.m, .k = shape.k}, .first = b, .second = a};
}

}  // namespace lockstep::runtime
