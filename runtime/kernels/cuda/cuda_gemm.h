// gemm() on the device of this process.
#pragma once

#include "runtime/kernels/gemm.h"

namespace lockstep::runtime {

// Starts cuBLAS, which takes memory, before buffers do. Throws as cuda_gemm().
void start_cuda_gemm();

// C = A B + beta C as gemm() has it, for matrices in the device's memory; returns before it is
// done. Sums are fp32 throughout: no TF32, no sums in 16 bits. With one stream and a workspace of
// its own, cuBLAS gives the same bits for the same shape, types and alignment on the same kind of
// device (source: cuBLAS, Results Reproducibility). Throws std::invalid_argument if the operands
// are of two types, std::bad_alloc if the device's memory is used up, std::runtime_error with
// cuBLAS's status.
void cuda_gemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
               int64_t c_leading);

}  // namespace lockstep::runtime
