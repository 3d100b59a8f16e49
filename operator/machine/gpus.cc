#include "operator/machine/gpus.h"

#include <array>

#include <dlfcn.h>

namespace lockstep::machine {
namespace {

constexpr int kNvmlSuccess = 0;

// As NVML lays it out; bytes.
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

// The loaded library; the functions' types are those of nvml.h, in which a device is a pointer.
class Nvml {
 public:
  explicit Nvml(const std::string& name) : library_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  ~Nvml() {
    if (is_initialized_) shutdown_();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool is_loaded() const { return library_ != nullptr; }

  // What went wrong; empty if it answers.
  std::string start() {
    if (!find("nvmlInit_v2", init_) || !find("nvmlShutdown", shutdown_) ||
        !find("nvmlSystemGetDriverVersion", driver_version_) ||
        !find("nvmlDeviceGetCount_v2", count_) || !find("nvmlDeviceGetHandleByIndex_v2", device_) ||
        !find("nvmlDeviceGetName", name_) || !find("nvmlDeviceGetMemoryInfo", memory_)) {
      return "the driver's library lacks functions of NVML";
    }
    const int status = init_();
    is_initialized_ = status == kNvmlSuccess;
    return is_initialized_ ? "" : "nvmlInit_v2 failed with " + std::to_string(status);
  }

  std::string driver() const {
    std::array<char, 96> text{};
    return driver_version_(text.data(), text.size() - 1) == kNvmlSuccess ? text.data() : "";
  }

  unsigned int count() const {
    unsigned int number = 0;
    return count_(&number) == kNvmlSuccess ? number : 0;
  }

  Gpu gpu(unsigned int index) const {
    void* device = nullptr;
    if (device_(index, &device) != kNvmlSuccess) return {.name = "does not answer"};
    std::array<char, 96> name{};
    NvmlMemory memory;
    const bool is_named = name_(device, name.data(), name.size() - 1) == kNvmlSuccess;
    const bool is_sized = memory_(device, &memory) == kNvmlSuccess;
    return {.name = is_named ? name.data() : "without a name",
            .memory_bytes = is_sized ? static_cast<int64_t>(memory.total) : 0};
  }

 private:
  template <typename Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }

  void* library_ = nullptr;
  bool is_initialized_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*driver_version_)(char*, unsigned int) = nullptr;
  int (*count_)(unsigned int*) = nullptr;
  int (*device_)(unsigned int, void**) = nullptr;
  int (*name_)(void*, char*, unsigned int) = nullptr;
  int (*memory_)(void*, NvmlMemory*) = nullptr;
};

}  // namespace

GpuFacts read_gpus(const std::string& library, const ReadFile& read) {
  GpuFacts facts;
  const std::string driver = parse_nvidia_version(read("/proc/driver/nvidia/version").value_or(""));
  Nvml nvml(library);
  if (!nvml.is_loaded()) {
    facts.driver = driver;
    facts.where_asked = "/proc/driver/nvidia";
    if (!driver.empty()) {
      facts.trouble =
          "the driver " + driver + " is loaded, but its library " + library + " is not here";
    }
    return facts;
  }
  facts.where_asked = "NVML";
  const std::string trouble = nvml.start();
  if (!trouble.empty()) {
    facts.driver = driver;
    // The library without its driver is what machines without a GPU have that share an image.
    if (!driver.empty()) facts.trouble = trouble;
    return facts;
  }
  facts.driver = nvml.driver();
  for (unsigned int i = 0; i < nvml.count(); ++i) facts.gpus.push_back(nvml.gpu(i));
  return facts;
}

}  // namespace lockstep::machine
