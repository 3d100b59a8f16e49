// The load of this rank's GPU, from the driver's own library where there is one.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace lockstep::runtime {

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

class GpuUtilization {
 public:
  // Loads `library` (NVML; a name that the loader finds, or a path) and picks a device by its index
  // there. Nothing if the library is absent, lacks a function, has no such device or refuses: a
  // rank without a GPU shows none. Source: NVML API reference, nvmlDeviceGetUtilizationRates.
  static std::optional<GpuUtilization> open(const std::string& library, int device);

  // The share of the driver's last sample period (up to a second) in which the GPU was at work, 0
  // to 1; nothing if the driver does not tell.
  std::optional<double> sample() const;

 private:
  struct Api;
  explicit GpuUtilization(std::shared_ptr<const Api> api) : api_(std::move(api)) {}

  std::shared_ptr<const Api> api_;
};

}  // namespace lockstep::runtime
