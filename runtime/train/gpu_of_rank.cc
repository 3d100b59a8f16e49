#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "runtime/common/program_library.h"
#include "runtime/kernels/cuda/cuda_device.h"
#include "runtime/kernels/cuda/cuda_driver.h"
#include "runtime/train/rank_device.h"

namespace lockstep::runtime {
namespace {

constexpr char kLibrary[] = "liblockstep-cuda.so";

common::Error no_library(const std::string& why) {
  return {.code = common::ErrorCode::kUnavailable,
          .message = "no CUDA device can be used: " + why,
          .hint =
              "use the image for GPUs; elsewhere, install the library of the program's own version "
              "beside the program, and cuBLAS where the loader looks"};
}

}  // namespace

common::Result<Device> gpu_of_rank(const common::WorkerEnv& env) {
  ASSIGN_OR_RETURN(const std::vector<CudaDevice> found,
                   usable_devices(ask_cuda_driver(kCudaDriverLibrary)));
  const auto num_devices = static_cast<int>(found.size());
  const bool shares = env.device == common::DeviceChoice::kSharedGpu;
  const int index = shares ? env.local_rank % num_devices : env.local_rank;
  ASSIGN_OR_RETURN(const CudaDevice chosen, device_of_rank(found, index));
  const common::Result<void*> library =
      common::load_program_library(kLibrary, kCudaVersionSymbol, LOCKSTEP_VERSION);
  if (!library) return no_library(library.error().message);
  const auto device = reinterpret_cast<CudaDeviceFunction*>(dlsym(*library, kCudaDeviceSymbol));
  if (device == nullptr) return no_library(dlerror());
  Device gpu;
  try {
    gpu = device(index);
  } catch (const std::exception& error) {
    return common::Error{.code = common::ErrorCode::kUnavailable,
                         .message = chosen.name + " does not start: " + error.what(),
                         .hint = "see what nvidia-smi says on this machine"};
  }
  gpu.memory_bytes = chosen.memory_bytes;
  if (shares) {
    gpu.memory_bytes /= std::max(1, (env.local_world_size + num_devices - 1) / num_devices);
  }
  return gpu;
}

}  // namespace lockstep::runtime
