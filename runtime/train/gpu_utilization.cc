#include "runtime/train/gpu_utilization.h"

#include <dlfcn.h>

namespace lockstep::runtime {
namespace {

// As NVML lays it out; both in percent.
struct UtilizationRates {
  unsigned int gpu = 0;
  unsigned int memory = 0;
};

constexpr int kNvmlSuccess = 0;

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// The loaded library. The functions' types are those of nvml.h, in which a device is a pointer.
struct GpuUtilization::Api {
  Api() = default;
  ~Api() {
    if (is_initialized) shutdown();
    if (library != nullptr) dlclose(library);
  }
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  bool load(const std::string& name, int index) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    if (!find(library, "nvmlInit_v2", init) || !find(library, "nvmlShutdown", shutdown) ||
        !find(library, "nvmlDeviceGetHandleByIndex_v2", device_by_index) ||
        !find(library, "nvmlDeviceGetUtilizationRates", utilization)) {
      return false;
    }
    is_initialized = init() == kNvmlSuccess;
    return is_initialized &&
           device_by_index(static_cast<unsigned int>(index), &device) == kNvmlSuccess;
  }

  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_by_index)(unsigned int, void**) = nullptr;
  int (*utilization)(void*, UtilizationRates*) = nullptr;
  bool is_initialized = false;
  void* device = nullptr;
};

std::optional<GpuUtilization> GpuUtilization::open(const std::string& library, int device) {
  const auto api = std::make_shared<Api>();
  if (device < 0 || !api->load(library, device)) return std::nullopt;
  return GpuUtilization(api);
}

std::optional<double> GpuUtilization::sample() const {
  UtilizationRates rates;
  if (api_->utilization(api_->device, &rates) != kNvmlSuccess) return std::nullopt;
  return rates.gpu / 100.0;
}

}  // namespace lockstep::runtime
