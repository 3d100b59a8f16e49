// A driver library with two GPUs for tests: device 0 is 37 % busy, has 16 GiB and compute
// capability 9.0, device 1 does not tell. They meet at a host bridge, or if FAKE_NVLINK is set by
// NVLink.
#include <cstdio>
#include <cstdlib>

namespace {

struct UtilizationRates {
  unsigned int gpu;
  unsigned int memory;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
int devices[2] = {0, 1};
bool initialized = false;

constexpr int kSuccess = 0;
constexpr int kUninitialized = 1;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kHostBridge = 30;
constexpr int kNvlinkCapability = 2;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  initialized = true;
  return kSuccess;
}

int nvmlShutdown() {
  initialized = false;
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  if (!initialized) return kUninitialized;
  if (index >= 2) return kInvalidArgument;
  *device = &devices[index];
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(void* device, UtilizationRates* rates) {
  if (!initialized) return kUninitialized;
  if (device != &devices[0]) return kNotSupported;
  *rates = {37, 12};
  return kSuccess;
}

int nvmlSystemGetDriverVersion(char* text, unsigned int length) {
  if (!initialized) return kUninitialized;
  std::snprintf(text, length, "999.1");
  return kSuccess;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  if (!initialized) return kUninitialized;
  *count = 2;
  return kSuccess;
}

int nvmlDeviceGetName(void* device, char* text, unsigned int length) {
  if (!initialized) return kUninitialized;
  if (device != &devices[0]) return kNotSupported;
  std::snprintf(text, length, "Fake GPU");
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  if (!initialized) return kUninitialized;
  if (device != &devices[0]) return kNotSupported;
  *memory = {16ULL << 30, 15ULL << 30, 1ULL << 30};
  return kSuccess;
}

int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  if (!initialized) return kUninitialized;
  if (device != &devices[0]) return kNotSupported;
  *major = 9;
  *minor = 0;
  return kSuccess;
}

int nvmlDeviceGetP2PStatus(void* first, void* second, int capability, int* status) {
  if (!initialized) return kUninitialized;
  if (first == second || capability != kNvlinkCapability) return kInvalidArgument;
  *status = std::getenv("FAKE_NVLINK") != nullptr ? 0 : 1;
  return kSuccess;
}

int nvmlDeviceGetTopologyCommonAncestor(void* first, void* second, int* level) {
  if (!initialized) return kUninitialized;
  if (first == second) return kInvalidArgument;
  *level = kHostBridge;
  return kSuccess;
}

}  // extern "C"
