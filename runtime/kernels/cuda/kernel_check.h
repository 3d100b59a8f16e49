// Holds a device's kernels against those of the processor, on the device itself.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/kernels/kernel_table.h"

namespace lockstep::runtime {

// Memory that both the host and the device read and write.
struct SharedMemory {
  void* (*allocate)(size_t num_bytes) = nullptr;
  void (*release)(void* memory) = nullptr;
  void (*wait_for_kernels)() = nullptr;  // before the host reads
};

struct KernelVerdict {
  std::string kernel;
  bool is_right = false;
  std::string found;  // "same bits", or how far off
};

// Runs a kernel of each kind on small inputs, of lengths that are no multiples of anything, with
// both tables. All must have the same bits, but what a device adds up in another order: attention,
// within 1e-5 of the largest element, and sums over many rows, within 1e-6.
// Throws what allocate and kernels throw.
std::vector<KernelVerdict> check_kernels(const KernelTable& device, const KernelTable& processor,
                                         const SharedMemory& memory);

}  // namespace lockstep::runtime
