// GPUs of this machine, by the driver's own library, and the NCCL that the loader finds.
#pragma once

#include <string>

#include "operator/machine/facts.h"
#include "operator/machine/proc_text.h"

namespace lockstep::machine {

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

// Loads `library` (NVML; a name that the loader finds, or a path) and asks it; without it, what
// /proc/driver/nvidia tells. Blocks while the driver starts. Source: NVML API reference.
GpuFacts read_gpus(const std::string& library, const ReadFile& read);

inline constexpr char kNcclLibrary[] = "libnccl.so.2";

// Loads `library` (NCCL) and asks for its version; nothing is said where it is absent.
// Source: nccl.h, ncclGetVersion().
NcclFacts read_nccl(const std::string& library);

// "2.27.5" of 22705, and of versions before 2.9 "2.8.4" of 2804. Pure.
std::string nccl_version_text(int version);

}  // namespace lockstep::machine
