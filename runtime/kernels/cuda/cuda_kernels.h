// The kernels as CUDA runs them, on the one stream of cuda/stream.h.
#pragma once

#include "runtime/kernels/kernel_table.h"

namespace lockstep::runtime {

// All pointers given to its functions are of memory that the current device reads and writes; of
// arguments by reference, `positions` too. Functions return before the work is done, but for
// cross_entropy(). They throw as check_cuda() does.
KernelTable cuda_kernels();

}  // namespace lockstep::runtime
