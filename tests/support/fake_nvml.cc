// A driver library with two GPUs for tests: device 0 is 37 % busy, device 1 does not tell.
namespace {

struct UtilizationRates {
  unsigned int gpu;
  unsigned int memory;
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

}  // extern "C"
