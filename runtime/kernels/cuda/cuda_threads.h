// CUDA's threads, for isa/simd_device.h (Note [Threads of a device] there).
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "runtime/kernels/cuda/stream.h"

#define LOCKSTEP_INLINE static __device__ __forceinline__
#define LOCKSTEP_MEMBER __device__ __forceinline__
#define LOCKSTEP_KERNEL [=] __device__
#define LOCKSTEP_UNROLL _Pragma("unroll")

namespace lockstep::runtime::LOCKSTEP_ISA {

inline constexpr int64_t kBlockThreads = 256;

LOCKSTEP_INLINE int64_t thread_index() {
  return threadIdx.x;
}
// The bits of this thread's sixteen in its warp of 32.
LOCKSTEP_INLINE unsigned int lane_mask() {
  return 0xFFFFU << (threadIdx.x & 16U);
}
LOCKSTEP_INLINE void sync_lanes() {
  __syncwarp(lane_mask());
}
LOCKSTEP_INLINE void sync_block() {
  __syncthreads();
}
template <class Number>
LOCKSTEP_INLINE Number from_lane_across(Number value, int half) {
  sync_lanes();  // a shuffle alone does not order accesses to memory
  return __shfl_xor_sync(lane_mask(), value, half);
}

template <class Body>
__global__ void __launch_bounds__(kBlockThreads) run_block(const Body body) {
  extern __shared__ float shared[];
  body(static_cast<int64_t>(blockIdx.x), shared);
}

template <class Body>
void launch_blocks(int64_t blocks, int64_t shared_floats, const Body& body) {
  run_block<<<static_cast<unsigned int>(blocks), kBlockThreads,
              static_cast<size_t>(shared_floats) * sizeof(float), device_stream()>>>(body);
  check_cuda(cudaGetLastError(), "launch of a kernel");
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA
