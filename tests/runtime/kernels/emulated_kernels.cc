#include "runtime/kernels/isa/kernels.h"
#include "tests/runtime/kernels/tested_kernels.h"

LOCKSTEP_DECLARE_KERNELS(emulated)

namespace lockstep::runtime {

KernelTable emulated_kernels() {
  return LOCKSTEP_KERNEL_TABLE(emulated);
}

}  // namespace lockstep::runtime
