// The tables that tests of kernels compare.
#pragma once

#include <string>
#include <vector>

#include "runtime/kernels/kernel_table.h"

namespace lockstep::runtime {

inline constexpr char kEmulatedIsa[] = "emulated";

// The kernels of a GPU, from the source that nvcc compiles, with threads that the host plays
// (emulated_block.h).
KernelTable emulated_kernels();

// supported_kernels() after emulated_kernels(), so that "plain" is the last.
inline std::vector<KernelTable> tested_kernels() {
  std::vector<KernelTable> tables = supported_kernels();
  tables.insert(tables.begin(), emulated_kernels());
  return tables;
}

inline bool is_emulated(const KernelTable& table) {
  return table.isa == std::string(kEmulatedIsa);
}

}  // namespace lockstep::runtime
