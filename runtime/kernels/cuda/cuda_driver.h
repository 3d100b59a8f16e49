// Whether this machine can run the CUDA build: its driver, and what GPUs that offers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/common/result.h"

namespace lockstep::runtime {

inline constexpr char kCudaDriverLibrary[] = "libcuda.so.1";
// What the driver must support, as cuDriverGetVersion() counts (1000 * major + 10 * minor), and the
// first driver that does. Of the CUDA libraries that tools/pins.sh names.
inline constexpr int kNeededCuda = 13000;
inline constexpr int kNeededDriver = 580;
// Compute capability: the oldest one for which there is code (tools/cmake/LockstepCuda.cmake).
inline constexpr int kNeededCapabilityMajor = 8;

struct CudaDevice {
  std::string name;
  int major = 0;  // of its compute capability
  int minor = 0;
  int64_t memory_bytes = 0;
};

// What the driver says, before any judgement.
struct DriverFacts {
  std::string load_error;           // why the library cannot be used; empty: it can
  int version = 0;                  // of CUDA that it supports, as kNeededCuda; 0: it does not tell
  int init_status = 0;              // of cuInit(); 0: success
  std::string init_words;           // the driver's own about that status
  std::vector<CudaDevice> devices;  // that CUDA_VISIBLE_DEVICES leaves; empty unless initialized
};

// Asks `library` (a name that the loader finds, or a path). Loads it for the life of the process;
// nothing of it is linked, so a program of the CUDA build starts where there is no driver.
// Source: CUDA driver API, sections initialization, version and device management.
DriverFacts ask_cuda_driver(const std::string& library);

// The devices of these facts; or why none can be used (kUnavailable), and what to do.
common::Result<std::vector<CudaDevice>> usable_devices(const DriverFacts& facts);

// The device of a rank, by its place among the ranks of its pod: an error (kUnavailable) if there
// are fewer devices, or if its compute capability is too old.
common::Result<CudaDevice> device_of_rank(const std::vector<CudaDevice>& devices, int local_rank);

}  // namespace lockstep::runtime
