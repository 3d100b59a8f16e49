#include "operator/machine/gpus.h"

#include <array>
#include <utility>

#include <dlfcn.h>

namespace lockstep::machine {
namespace {

constexpr int kNvmlSuccess = 0;
constexpr int kNcclSuccess = 0;
constexpr int kNvlinkCapability = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
constexpr int kPeerStatusOk = 0;      // NVML_P2P_STATUS_OK

// nvmlGpuTopologyLevel_t by nvidia-smi's names; empty for one that is not known.
std::string level_name(int level) {
  switch (level) {
    case 0:
      return "same board";
    case 10:
      return "PIX";
    case 20:
      return "PXB";
    case 30:
      return "PHB";
    case 40:
      return "NODE";
    case 50:
      return "SYS";
    default:
      return "";
  }
}

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
    // Drivers of long ago lack these.
    find("nvmlDeviceGetCudaComputeCapability", capability_);
    find("nvmlDeviceGetP2PStatus", peer_status_);
    find("nvmlDeviceGetTopologyCommonAncestor", common_ancestor_);
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
    int major = 0;
    int minor = 0;
    const bool is_told =
        capability_ != nullptr && capability_(device, &major, &minor) == kNvmlSuccess;
    return {.name = is_named ? name.data() : "without a name",
            .memory_bytes = is_sized ? static_cast<int64_t>(memory.total) : 0,
            .capability = is_told ? 10 * major + minor : 0};
  }

  // How two GPUs reach each other; empty if the driver does not tell.
  std::string link(unsigned int first, unsigned int second) const {
    void* one = nullptr;
    void* other = nullptr;
    if (device_(first, &one) != kNvmlSuccess || device_(second, &other) != kNvmlSuccess) return "";
    int status = 0;
    const bool is_direct = peer_status_ != nullptr &&
                           peer_status_(one, other, kNvlinkCapability, &status) == kNvmlSuccess &&
                           status == kPeerStatusOk;
    if (is_direct) return "NVLink";
    int level = 0;
    if (common_ancestor_ == nullptr || common_ancestor_(one, other, &level) != kNvmlSuccess) {
      return "";
    }
    return level_name(level);
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
  int (*capability_)(void*, int*, int*) = nullptr;
  int (*peer_status_)(void*, void*, int, int*) = nullptr;
  int (*common_ancestor_)(void*, void*, int*) = nullptr;
};

std::vector<GpuLink> links_of(const Nvml& nvml, unsigned int count) {
  std::vector<GpuLink> links;
  for (unsigned int i = 0; i < count; ++i) {
    for (unsigned int k = i + 1; k < count; ++k) {
      if (std::string kind = nvml.link(i, k); !kind.empty()) {
        links.push_back({.first = i, .second = k, .kind = std::move(kind)});
      }
    }
  }
  return links;
}

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
  const unsigned int count = nvml.count();
  for (unsigned int i = 0; i < count; ++i) facts.gpus.push_back(nvml.gpu(i));
  facts.links = links_of(nvml, count);
  return facts;
}

NcclFacts read_nccl(const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (loaded == nullptr) return {};
  NcclFacts facts;
  const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(loaded, "ncclGetVersion"));
  int version = 0;
  if (ask == nullptr || ask(&version) != kNcclSuccess) {
    facts.trouble = library + " does not tell its version";
  } else {
    facts.version = nccl_version_text(version);
  }
  dlclose(loaded);
  return facts;
}

std::string nccl_version_text(int version) {
  constexpr int kSinceTwoNine = 10000;  // two digits for each part but the first
  const int unit = version < kSinceTwoNine ? 1000 : kSinceTwoNine;
  return std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace lockstep::machine
