// What a machine is like, as far as a job cares. Gathered by read_facts.h, told by facts_text.h,
// judged by examine.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::machine {

struct CpuFacts {
  std::string model;                          // empty: not told
  std::string architecture;                   // "x86_64"
  int64_t num_cores = 0;                      // that this process may use
  int64_t num_nodes = 0;                      // of memory, each with cores of its own (NUMA)
  std::vector<std::string> instruction_sets;  // of those that kernels are made for
  bool operator==(const CpuFacts&) const = default;
};

// The narrowest limits on the way from this process's group to the root.
struct CgroupFacts {
  int version = 0;  // 1 or 2; 0: there is none
  std::optional<double> cpus;
  std::optional<int64_t> memory_bytes;
  // What is left below these limits: pages of files that the kernel can drop count as free.
  std::optional<int64_t> memory_free_bytes{};
  bool operator==(const CgroupFacts&) const = default;
};

struct MemoryFacts {
  int64_t total_bytes = 0, available_bytes = 0;
  bool operator==(const MemoryFacts&) const = default;
};

// A file system at a path.
struct SpaceFacts {
  std::string path;
  int64_t total_bytes = 0, free_bytes = 0;
  bool is_writable = false;
  std::string trouble{};  // why nothing is known of it; empty if all is
};

struct Gpu {
  std::string name;
  int64_t memory_bytes = 0;
  int capability = 0;  // 10 x compute capability: 90 is 9.0; 0: not told
  bool operator==(const Gpu&) const = default;
};

// The nearest that two GPUs have in common, by their numbers.
struct GpuLink {
  size_t first = 0, second = 0;
  std::string kind;  // as nvidia-smi topo calls it: "NVLink", "PIX", "PXB", "PHB", "NODE", "SYS"
  bool operator==(const GpuLink&) const = default;
};

struct GpuFacts {
  std::string driver;  // its version; empty without one
  std::vector<Gpu> gpus;
  std::vector<GpuLink> links{};  // of every pair that the driver tells of
  std::string trouble;           // a driver that is there and does not answer; empty: no such thing
  std::string where_asked;       // for people: "NVML", "/proc/driver/nvidia"
};

// NVIDIA's library of collectives, which programs of users' own bring or find.
struct NcclFacts {
  std::string version;  // "2.27.5"; empty: none is found by the loader
  std::string trouble{};
};

// Nothing is no limit.
struct UserLimit {
  std::string name;    // "open files"
  std::string ulimit;  // the letter that sets it: "n"
  bool is_bytes = false;
  std::optional<int64_t> soft{}, hard{};
};

// How the machine reaches the master of a job.
struct RouteFacts {
  std::string master;     // a host name or an address
  std::string address;    // of this machine, on the way there
  std::string interface;  // that has it
  std::string trouble;
};

struct ProgramFacts {
  std::string path;
  std::string version;  // "0.1.0"
  std::string told;     // all it says of itself: "lockstep-runtime 0.1.0, LibTorch 2.11.0"
  std::string trouble;
};

struct PortFacts {
  int port = 0;
  std::string why;  // it matters: "MASTER_PORT"
  bool is_free = false;
};

struct MachineFacts {
  std::string lockstep_version;
  ProgramFacts runtime;
  std::string system;  // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;  // "Linux 6.1.0"
  CpuFacts cpu;
  CgroupFacts cgroup;
  MemoryFacts memory;
  SpaceFacts shared_memory;
  SpaceFacts output;
  GpuFacts gpus;
  NcclFacts nccl;
  std::vector<UserLimit> limits;
  RouteFacts route;
  std::vector<PortFacts> ports;
};

// What a job may still take of the group's limit; nothing without one.
inline std::optional<int64_t> memory_of_group(const MachineFacts& facts) {
  return facts.cgroup.memory_free_bytes ? facts.cgroup.memory_free_bytes
                                        : facts.cgroup.memory_bytes;
}

// Memory that all processes of a job here may use together: what the group or the machine has left.
inline int64_t usable_memory(const MachineFacts& facts) {
  const int64_t available = facts.memory.available_bytes;
  return std::min(memory_of_group(facts).value_or(available), available);
}

// Cores that all processes of a job here may keep busy.
inline double usable_cores(const MachineFacts& facts) {
  const auto cores = static_cast<double>(facts.cpu.num_cores);
  return facts.cgroup.cpus && *facts.cgroup.cpus < cores ? *facts.cgroup.cpus : cores;
}

}  // namespace lockstep::machine
