#include "runtime/kernels/cuda/cuda_kernels.h"

#include "runtime/kernels/isa/kernels.h"

LOCKSTEP_DECLARE_KERNELS(cuda)

namespace lockstep::runtime {

KernelTable cuda_kernels() {
  return LOCKSTEP_KERNEL_TABLE(cuda);
}

}  // namespace lockstep::runtime
