// Where this process computes: its processor, or one GPU.
//
// Note [The seam of a device]
// Blocks and strategies know no device: they call the functions of elementwise.h, attention.h and
// gemm.h on buffers of float_buffer.h, which belong to the one device of the process. What is not
// computed there reads and writes the host's memory: tokens, first weights, checkpoints, what ranks
// exchange. Between the two bytes move by copy_bytes() alone. A GPU has one stream (cuda/stream.h):
// kernels, copies and products run on it in the order in which they were given, so a caller waits
// only where a number comes to the host: the loss, squared gradients, and what ranks exchange.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/gemm.h"
#include "runtime/kernels/kernel_table.h"

namespace lockstep::runtime {

struct Device {
  const char* name = "";  // "cpu" | "cuda"
  // Whether its memory is not the host's, and then how much there is of it.
  bool has_own_memory = false;
  int64_t memory_bytes = 0;
  // How many times the rows that a processor works on at once keep it busy. Part of the arithmetic:
  // see Note [Logits by chunks of rows] in model/head.h.
  int64_t row_factor = 1;
  KernelTable kernels;
  decltype(&runtime::gemm) gemm = nullptr;
  // At least 64-byte aligned, not initialized. Throws std::bad_alloc.
  void* (*allocate)(size_t num_bytes) = nullptr;
  void (*release)(void* memory) noexcept = nullptr;
  // Host memory that is copied from and to at full speed; the same otherwise.
  void* (*allocate_host)(size_t num_bytes) = nullptr;
  void (*release_host)(void* memory) noexcept = nullptr;
  // After the kernels before it. Where one side is the host's, it returns when that side's bytes
  // are read or written.
  void (*copy)(void* to, const void* from, size_t num_bytes) = nullptr;
  void (*clear)(void* memory, size_t num_bytes) = nullptr;
  // Whether `memory` came from allocate() or lies in what did.
  bool (*holds)(const void* memory) = nullptr;
};

// The processor with chosen kernels.
Device processor();

// The device of this process: the processor, unless compute_on() named another.
const Device& device();
// Before the first buffer, and before other threads use one: buffers of two devices do not mix.
void compute_on(const Device& chosen);

// Moves bytes within the device's memory, within the host's, or between them, after the kernels
// before. Where one side is the host's, it returns when that side's bytes are read or written.
inline void copy_bytes(void* to, const void* from, size_t num_bytes) {
  if (num_bytes > 0) device().copy(to, from, num_bytes);
}
// n floats, as copy_bytes().
inline void copy_floats(int64_t n, const float* from, float* to) {
  copy_bytes(to, from, static_cast<size_t>(n) * sizeof(float));
}
// Sets n floats of the device to zero.
inline void clear_floats(int64_t n, float* x) {
  if (n > 0) device().clear(x, static_cast<size_t>(n) * sizeof(float));
}

}  // namespace lockstep::runtime
