// A GPU as the device of this process, by a library of its own: kernels, cuBLAS and CUDA's runtime
// are loaded by ranks that compute on one, and by no others.
#pragma once

#include "runtime/kernels/device.h"

namespace lockstep::runtime {

// The functions that liblockstep-cuda.so exports: what its version is, and the GPU with a CUDA
// index, with its memory, its one stream (cuda/stream.h), kernels and products. Its memory_bytes is
// left to the caller. To be called once; throws std::runtime_error with CUDA's words if the GPU
// does not start.
inline constexpr char kCudaVersionSymbol[] = "lockstep_cuda_version";
inline constexpr char kCudaDeviceSymbol[] = "lockstep_cuda_device";
using CudaDeviceFunction = Device(int index);

}  // namespace lockstep::runtime
