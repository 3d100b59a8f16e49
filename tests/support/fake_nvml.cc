// A driver library with two GPUs for tests: device 0 is 37 % busy and has 16 GiB, device 1 does not
// tell.
#include <cstdio>

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

}  // extern "C"
