// Files of /proc and /etc as values. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "operator/machine/facts.h"

namespace lockstep::machine {

// Text of a file; nothing if it cannot be read.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;

// Model and instruction sets of /proc/cpuinfo.
CpuFacts parse_cpuinfo(const std::string& text);
// How many numbers a list as of /sys has: 6 of "0-3,8,10"; 0 of what is none.
int64_t count_list(const std::string& text);
MemoryFacts parse_meminfo(const std::string& text);
// PRETTY_NAME of /etc/os-release; empty without one.
std::string parse_os_release(const std::string& text);
// Version of the driver in /proc/driver/nvidia/version; empty without one.
std::string parse_nvidia_version(const std::string& text);

}  // namespace lockstep::machine
