// A CUDA driver for tests: it says what the environment tells it to.
//   FAKE_CUDA_VERSION  as cuDriverGetVersion() counts; default 13000
//   FAKE_CUDA_INIT     what cuInit() returns; default 0
//   FAKE_CUDA_DEVICES  how many devices there are; default 1. Device i has 1024 (i + 1) bytes and
//                      compute capability 9.0, but device 1, which has 7.5.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kNotInitialized = 3;
constexpr int kCapabilityMajor = 75;

bool initialized = false;

int number_from(const char* name, int absent) {
  const char* const value = std::getenv(name);
  return value == nullptr ? absent : std::atoi(value);
}

}  // namespace

extern "C" {

int cuInit(unsigned int /*flags*/) {
  const int status = number_from("FAKE_CUDA_INIT", kSuccess);
  initialized = status == kSuccess;
  return status;
}

int cuDriverGetVersion(int* version) {
  *version = number_from("FAKE_CUDA_VERSION", 13000);
  return kSuccess;
}

int cuGetErrorString(int status, const char** words) {
  if (status == kSuccess) return kInvalidValue;
  *words = status == 100 ? "no CUDA-capable device is detected" : "unknown error";
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  if (!initialized) return kNotInitialized;
  *count = number_from("FAKE_CUDA_DEVICES", 1);
  return kSuccess;
}

// Devices have other numbers than places.
int cuDeviceGet(int* device, int index) {
  if (index >= number_from("FAKE_CUDA_DEVICES", 1)) return kInvalidValue;
  *device = 10 + index;
  return kSuccess;
}

int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake %d", device - 10);
  return kSuccess;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (device == 11) {
    *value = attribute == kCapabilityMajor ? 7 : 5;
  } else {
    *value = attribute == kCapabilityMajor ? 9 : 0;
  }
  return kSuccess;
}

int cuDeviceTotalMem_v2(size_t* num_bytes, int device) {
  *num_bytes = 1024 * static_cast<size_t>(device - 9);
  return kSuccess;
}

}  // extern "C"
