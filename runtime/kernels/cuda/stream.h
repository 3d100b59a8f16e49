// The one stream on which a process computes, and how its errors end the work.
#pragma once

#include <cstdint>
#include <new>

#include <cuda_runtime.h>

namespace lockstep::runtime::cuda {

// The stream of all kernels, copies and products of this process: they run in the order in which
// they were given. It belongs to the device that was current at the first call.
cudaStream_t device_stream();

class OutOfDeviceMemory : public std::bad_alloc {
 public:
  const char* what() const noexcept override { return "CUDA out of memory"; }
};

// Throws std::runtime_error with CUDA's words, after `what`, unless `status` is success;
// OutOfDeviceMemory if the device's memory is used up.
void check_cuda(cudaError_t status, const char* what);

// Waits for all that was launched on the stream; throws as check_cuda() over an error of a kernel.
void wait_for_kernels();

// At least n floats of the device's memory; the same ones at every call, so they serve kernels that
// are launched before the next one.
float* device_floats(int64_t n);

// At least n doubles of host memory that kernels write; the same ones at every call, so they are
// read before the next one.
double* host_doubles(int64_t n);

}  // namespace lockstep::runtime::cuda
