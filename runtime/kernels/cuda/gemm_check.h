// Holds the device's products against plain sums, on the device itself.
#pragma once

#include "runtime/kernels/cuda/kernel_check.h"

namespace lockstep::runtime {

// Products of odd shapes in every type and with every transposition, added to what was there, twice
// each: within 1e-5 of the largest element of sums in fp64, and the same bits both times.
KernelVerdict check_gemm(const SharedMemory& memory);

}  // namespace lockstep::runtime
