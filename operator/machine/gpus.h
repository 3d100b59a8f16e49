// GPUs of this machine, by the driver's own library.
#pragma once

#include <string>

#include "operator/machine/facts.h"
#include "operator/machine/proc_text.h"

namespace lockstep::machine {

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

// Loads `library` (NVML; a name that the loader finds, or a path) and asks it; without it, what
// /proc/driver/nvidia tells. Blocks while the driver starts. Source: NVML API reference.
GpuFacts read_gpus(const std::string& library, const ReadFile& read);

}  // namespace lockstep::machine
