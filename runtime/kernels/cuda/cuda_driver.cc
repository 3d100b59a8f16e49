#include "runtime/kernels/cuda/cuda_driver.h"

#include <array>
#include <cstddef>

#include <dlfcn.h>

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;

constexpr int kSuccess = 0;
constexpr int kNoDevice = 100;        // CUDA_ERROR_NO_DEVICE
constexpr int kCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;

// The functions as cuda.h declares them; a device and a result are ints there.
struct DriverApi {
  int (*init)(unsigned int) = nullptr;
  int (*version)(int*) = nullptr;
  int (*error_string)(int, const char**) = nullptr;
  int (*num_devices)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*memory)(size_t*, int) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// The reason why it fails, or nothing.
std::string load(const std::string& library, DriverApi& api) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return dlerror();
  const bool is_complete =
      find(handle, "cuInit", api.init) && find(handle, "cuDriverGetVersion", api.version) &&
      find(handle, "cuGetErrorString", api.error_string) &&
      find(handle, "cuDeviceGetCount", api.num_devices) &&
      find(handle, "cuDeviceGet", api.device) && find(handle, "cuDeviceGetName", api.name) &&
      find(handle, "cuDeviceGetAttribute", api.attribute) &&
      find(handle, "cuDeviceTotalMem_v2", api.memory);
  return is_complete ? "" : library + ": lacks functions of a CUDA driver";
}

CudaDevice describe(const DriverApi& api, int index) {
  CudaDevice found;
  int device = 0;
  std::array<char, 256> name = {};
  size_t memory = 0;
  if (api.device(&device, index) != kSuccess) return found;
  api.name(name.data(), static_cast<int>(name.size()) - 1, device);
  api.attribute(&found.major, kCapabilityMajor, device);
  api.attribute(&found.minor, kCapabilityMinor, device);
  api.memory(&memory, device);
  found.name = name.data();
  found.memory_bytes = static_cast<int64_t>(memory);
  return found;
}

std::string release(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

const std::string& where_to_run() {
  static const std::string text = "run it where there is an NVIDIA GPU and its driver " +
                                  std::to_string(kNeededDriver) +
                                  " or newer (in a cluster: nvidia.com/gpu in the job's "
                                  "resources.limits), or use the CPU build";
  return text;
}

Error no_device(const std::string& why, const std::string& hint) {
  return {
      .code = ErrorCode::kUnavailable, .message = "no CUDA device was found: " + why, .hint = hint};
}

}  // namespace

DriverFacts ask_cuda_driver(const std::string& library) {
  DriverFacts facts;
  DriverApi api;
  facts.load_error = load(library, api);
  if (!facts.load_error.empty()) return facts;
  if (api.version(&facts.version) != kSuccess) facts.version = 0;
  facts.init_status = api.init(0);
  if (facts.init_status != kSuccess) {
    const char* words = nullptr;
    if (api.error_string(facts.init_status, &words) == kSuccess && words != nullptr) {
      facts.init_words = words;
    }
    return facts;
  }
  int num_devices = 0;
  if (api.num_devices(&num_devices) != kSuccess) num_devices = 0;
  for (int i = 0; i < num_devices; ++i) facts.devices.push_back(describe(api, i));
  return facts;
}

common::Result<std::vector<CudaDevice>> usable_devices(const DriverFacts& facts) {
  if (!facts.load_error.empty()) {
    return no_device("no NVIDIA driver (" + facts.load_error + ")", where_to_run());
  }
  // Before what cuInit() said: an old driver may refuse for being old.
  if (facts.version < kNeededCuda) {
    return no_device("the NVIDIA driver supports CUDA " + release(facts.version) +
                         ", and this build needs " + release(kNeededCuda),
                     "update the driver to " + std::to_string(kNeededDriver) + " or newer");
  }
  if (facts.init_status != kSuccess && facts.init_status != kNoDevice) {
    return no_device("the NVIDIA driver does not start: error " +
                         std::to_string(facts.init_status) + " (" + facts.init_words + ")",
                     "see what nvidia-smi says on this machine");
  }
  if (facts.devices.empty()) {
    return no_device(
        "the NVIDIA driver shows none",
        "set CUDA_VISIBLE_DEVICES to GPUs that exist, or unset it; else " + where_to_run());
  }
  return facts.devices;
}

common::Result<CudaDevice> device_of_rank(const std::vector<CudaDevice>& devices, int local_rank) {
  const auto index = static_cast<size_t>(local_rank);
  if (local_rank < 0 || index >= devices.size()) {
    return no_device("local rank " + std::to_string(local_rank) + " has none, there are " +
                         std::to_string(devices.size()),
                     "give a pod as many GPUs as it has ranks");
  }
  const CudaDevice& device = devices[index];
  if (device.major < kNeededCapabilityMajor) {
    return no_device("device " + std::to_string(local_rank) + ", " + device.name +
                         ", has compute capability " + std::to_string(device.major) + "." +
                         std::to_string(device.minor) + ", and there is code for " +
                         std::to_string(kNeededCapabilityMajor) + ".0 and newer",
                     "use an A100 or newer, or the CPU build");
  }
  return device;
}

}  // namespace lockstep::runtime
