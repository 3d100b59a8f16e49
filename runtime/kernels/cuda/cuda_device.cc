#include "runtime/kernels/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include "runtime/kernels/cuda/cuda_gemm.h"
#include "runtime/kernels/cuda/cuda_kernels.h"
#include "runtime/kernels/cuda/stream.h"

namespace lockstep::runtime {
namespace {

int chosen_index = 0;

// CUDA's current device is each thread's own.
void enter_device() {
  thread_local bool is_entered = false;
  if (is_entered) return;
  cuda::check_cuda(cudaSetDevice(chosen_index), "the device");
  is_entered = true;
}

void* allocate(size_t num_bytes) {
  enter_device();
  void* memory = nullptr;
  cuda::check_cuda(cudaMalloc(&memory, num_bytes), "memory");
  return memory;
}

void release(void* memory) noexcept {
  cudaFree(memory);  // after all kernels that were launched
}

void* allocate_host(size_t num_bytes) {
  enter_device();
  void* memory = nullptr;
  cuda::check_cuda(cudaMallocHost(&memory, num_bytes), "pinned memory");
  return memory;
}

void release_host(void* memory) noexcept {
  cudaFreeHost(memory);
}

bool holds(const void* memory) {
  enter_device();
  cudaPointerAttributes attributes = {};
  cuda::check_cuda(cudaPointerGetAttributes(&attributes, memory), "to tell whose memory it is");
  return attributes.type == cudaMemoryTypeDevice;
}

void copy(void* to, const void* from, size_t num_bytes) {
  enter_device();
  cuda::check_cuda(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, cuda::device_stream()),
                   "a copy");
  if (!holds(to) || !holds(from)) cuda::wait_for_kernels();
}

void clear(void* memory, size_t num_bytes) {
  enter_device();
  cuda::check_cuda(cudaMemsetAsync(memory, 0, num_bytes, cuda::device_stream()), "to clear memory");
}

Device cuda_device(int index) {
  chosen_index = index;
  enter_device();
  start_cuda_gemm();
  return {.name = "cuda",
          .has_own_memory = true,
          .row_factor = 16,
          .kernels = cuda_kernels(),
          .gemm = &cuda_gemm,
          .allocate = &allocate,
          .release = &release,
          .allocate_host = &allocate_host,
          .release_host = &release_host,
          .copy = &copy,
          .clear = &clear,
          .holds = &holds};
}

}  // namespace
}  // namespace lockstep::runtime

extern "C" {
const char* lockstep_cuda_version() {
  return LOCKSTEP_VERSION;
}

lockstep::runtime::Device lockstep_cuda_device(int index) {
  return lockstep::runtime::cuda_device(index);
}
}
