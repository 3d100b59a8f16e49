#include "runtime/kernels/device.h"

#include <cstring>
#include <new>

namespace lockstep::runtime {
namespace {

constexpr std::align_val_t kBufferAlignment{64};

void* allocate(size_t num_bytes) {
  return ::operator new(num_bytes, kBufferAlignment);
}

void release(void* memory) noexcept {
  ::operator delete(memory, kBufferAlignment);
}

void copy(void* to, const void* from, size_t num_bytes) {
  std::memcpy(to, from, num_bytes);
}

void clear(void* memory, size_t num_bytes) {
  std::memset(memory, 0, num_bytes);
}

bool holds(const void* /*memory*/) {
  return true;
}

Device& device_in_use() {
  static Device in_use = processor();
  return in_use;
}

}  // namespace

Device processor() {
  return {.name = "cpu",
          .has_own_memory = false,
          .kernels = chosen_kernels(),
          .gemm = &processor_gemm,
          .allocate = &allocate,
          .release = &release,
          .allocate_host = &allocate,
          .release_host = &release,
          .copy = &copy,
          .clear = &clear,
          .holds = &holds};
}

const Device& device() {
  return device_in_use();
}

void compute_on(const Device& chosen) {
  device_in_use() = chosen;
}

}  // namespace lockstep::runtime
