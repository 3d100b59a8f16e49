// Products of 16-bit operands by oneDNN's matmul primitive: one path of gemm().
#pragma once

#include "runtime/kernels/gemm.h"

namespace lockstep::runtime {

// C = A B + beta C as gemm(); k is at least 1. Primitives are compiled once per thread, type and
// shape. Returns oneDNN's status, 0 on success.
int matmul(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
           int64_t c_leading);

// Whether the primitive takes operands of `dtype` on this processor, and whether with instructions
// of that type.
bool matmul_takes(DType dtype);
bool matmul_is_fast(DType dtype);

}  // namespace lockstep::runtime
