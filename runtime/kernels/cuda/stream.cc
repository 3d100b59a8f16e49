#include "runtime/kernels/cuda/stream.h"

#include <stdexcept>
#include <string>

namespace lockstep::runtime::cuda {
namespace {

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  return stream;
}

// Pinned, so that kernels write to it.
struct PinnedDoubles {
  double* data = nullptr;
  int64_t num_elems = 0;
};

}  // namespace

cudaStream_t device_stream() {
  static cudaStream_t stream = make_stream();  // lives as long as the process
  return stream;
}

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation) throw OutOfDeviceMemory();
  throw std::runtime_error(std::string("CUDA refuses ") + what + ": " + cudaGetErrorString(status) +
                           " (" + cudaGetErrorName(status) + ")");
}

void wait_for_kernels() {
  check_cuda(cudaStreamSynchronize(device_stream()), "the kernels before");
}

float* device_floats(int64_t n) {
  static float* kept = nullptr;
  static int64_t num_elems = 0;
  if (n > num_elems) {
    check_cuda(cudaFree(kept), "to free memory");  // after all kernels that use it
    kept = nullptr;
    num_elems = 0;
    check_cuda(cudaMalloc(&kept, static_cast<size_t>(n) * sizeof(float)), "memory");
    num_elems = n;
  }
  return kept;
}

double* host_doubles(int64_t n) {
  static PinnedDoubles kept;
  if (n > kept.num_elems) {
    wait_for_kernels();
    check_cuda(cudaFreeHost(kept.data), "to free pinned memory");
    kept = {};
    check_cuda(cudaMallocHost(&kept.data, static_cast<size_t>(n) * sizeof(double)),
               "pinned memory");
    kept.num_elems = n;
  }
  return kept.data;
}

}  // namespace lockstep::runtime::cuda
