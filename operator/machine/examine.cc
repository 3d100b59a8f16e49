#include "operator/machine/examine.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "operator/machine/facts_text.h"
#include "operator/runs/html_text.h"

namespace lockstep::machine {
namespace {

constexpr int64_t kLeastFreeBytes = int64_t{512} << 20;  // a small job's two ranks
// Files, libraries and listeners of a rank, and its connections to every other.
constexpr int64_t kFilesOfARank = 256;
constexpr int64_t kFilesPerPeer = 8;
constexpr int64_t kThreadsOfARank = 64;
constexpr int kLeastDriver = 580;
constexpr int kLeastCapability = 80;  // 8.0

std::string counted(int64_t count, const std::string& what) {
  return std::to_string(count).append(" ").append(what).append(count == 1 ? "" : "s");
}

Finding fine(std::string check, std::string text) {
  return {.check = std::move(check), .is_wrong = false, .text = std::move(text), .next = ""};
}

Finding wrong(std::string check, std::string text, std::string next) {
  return {.check = std::move(check),
          .is_wrong = true,
          .text = std::move(text),
          .next = std::move(next)};
}

bool has(const CpuFacts& cpu, const char* set) {
  return std::find(cpu.instruction_sets.begin(), cpu.instruction_sets.end(), set) !=
         cpu.instruction_sets.end();
}

Finding examine_runtime(const MachineFacts& facts, const Needs&) {
  const std::string check = "runtime";
  const ProgramFacts& runtime = facts.runtime;
  if (!runtime.trouble.empty()) {
    return wrong(check, runtime.path + ": " + runtime.trouble, "make build");
  }
  if (runtime.version != facts.lockstep_version) {
    return wrong(check,
                 runtime.path + " is of version " + runtime.version + ", this program of " +
                     facts.lockstep_version,
                 "make build");
  }
  return fine(check, runtime.told);
}

Finding examine_cpu(const MachineFacts& facts, const Needs&) {
  const std::string check = "instruction sets";
  if (facts.cpu.architecture != "x86_64") {
    return wrong(
        check,
        "the processor is of " + facts.cpu.architecture + "; kernels are made for x86_64 with AVX2",
        "uname -m");
  }
  if (!has(facts.cpu, "avx2") || !has(facts.cpu, "fma") || !has(facts.cpu, "f16c")) {
    return wrong(check,
                 "no AVX2, FMA and F16C: plain code computes, many times slower; a virtual machine "
                 "may hide them (QEMU: -cpu host)",
                 "grep -m1 '^flags' /proc/cpuinfo");
  }
  return fine(check, has(facts.cpu, "avx512f") ? "AVX-512" : "AVX2");
}

Finding examine_cores(const MachineFacts& facts, const Needs& needs) {
  const std::string check = "cores";
  const double cores = usable_cores(facts);
  const std::string found = runs::short_number(cores, 3) + " for this process" +
                            (facts.cgroup.cpus ? " by its control group" : "");
  if (needs.file.empty()) {
    if (cores >= 1) return fine(check, found);
    return wrong(check, found + ": a rank wants one of its own", "cat /sys/fs/cgroup/cpu.max");
  }
  if (cores >= static_cast<double>(needs.ranks)) return fine(check, found);
  int64_t fitting = 1;
  for (const int64_t count : needs.rank_counts) {
    if (static_cast<double>(count) <= cores) fitting = count;
  }
  return wrong(check, found + ", " + counted(needs.ranks, "rank") + ": they wait for each other",
               "lockstep run " + needs.file + " --set ranks=" + std::to_string(fitting));
}

Finding examine_memory(const MachineFacts& facts, const Needs& needs) {
  const std::string check = "memory";
  const int64_t usable = usable_memory(facts);
  const bool is_group = usable == memory_of_group(facts);
  const bool is_used = is_group && usable != facts.cgroup.memory_bytes;
  std::string found = bytes_text(usable);
  found += !is_group ? " available"
           : is_used ? " left of " + bytes_text(*facts.cgroup.memory_bytes) +
                           " by the control group's limit"
                     : " by the control group's limit";
  if (needs.file.empty()) {
    if (usable >= kLeastFreeBytes) return fine(check, found);
    return wrong(check, found + "; a small job wants " + bytes_text(kLeastFreeBytes),
                 is_group ? "cat /sys/fs/cgroup/memory.max" : "free -m");
  }
  const int64_t wanted = needs.ranks * needs.rank_bytes;
  const std::string both = found + ", the job wants " + bytes_text(wanted) + " (" +
                           counted(needs.ranks, "rank") + " of " + bytes_text(needs.rank_bytes) +
                           ")";
  if (usable >= wanted) return fine(check, both);
  return wrong(check, both, "lockstep estimate " + needs.file);
}

Finding examine_shared_memory(const MachineFacts& facts, const Needs& needs) {
  const SpaceFacts& space = facts.shared_memory;
  const int64_t wanted = needs.shared_memory_bytes;
  const std::string remount =
      "mount -o remount,size=" + std::to_string(std::max<int64_t>(64, (2 * wanted) >> 20)) + "m " +
      space.path;
  if (!space.trouble.empty()) {
    return wrong(space.path, space.trouble + "; ranks of a host talk through it",
                 "mount -t tmpfs -o mode=1777,size=64m tmpfs " + space.path);
  }
  if (!space.is_writable) {
    return wrong(space.path, "cannot be written; ranks of a host talk through it",
                 "chmod 1777 " + space.path);
  }
  const std::string found = bytes_text(space.free_bytes) + " free of " +
                            bytes_text(space.total_bytes) + ", " + counted(needs.ranks, "rank") +
                            " want " + bytes_text(wanted);
  return space.free_bytes >= wanted ? fine(space.path, found) : wrong(space.path, found, remount);
}

// What prlimit(1) calls the limit that `ulimit -LETTER` sets.
std::string prlimit_name(const std::string& letter) {
  return letter == "n" ? "nofile" : "nproc";
}

Finding examine_limit(const MachineFacts& facts, const std::string& name, int64_t wanted) {
  const auto limit = std::find_if(facts.limits.begin(), facts.limits.end(),
                                  [&name](const UserLimit& each) { return each.name == name; });
  if (limit == facts.limits.end() || !limit->soft) return fine(name, "no limit");
  const std::string found = "at most " + std::to_string(*limit->soft);
  if (*limit->soft >= wanted) return fine(name, found);
  const std::string both = found + ", ranks may want " + std::to_string(wanted);
  if (limit->hard && *limit->hard < wanted) {
    return wrong(name,
                 both + ", and only root raises the hard limit of " + std::to_string(*limit->hard),
                 "sudo prlimit --pid $$ --" + prlimit_name(limit->ulimit) + "=" +
                     std::to_string(wanted) + ":" + std::to_string(wanted));
  }
  const int64_t asked = std::min(std::max<int64_t>(4096, wanted),
                                 limit->hard.value_or(std::numeric_limits<int64_t>::max()));
  return wrong(name, both, "ulimit -" + limit->ulimit + " " + std::to_string(asked));
}

Finding examine_files(const MachineFacts& facts, const Needs& needs) {
  return examine_limit(facts, "open files", kFilesOfARank + kFilesPerPeer * needs.ranks);
}

Finding examine_processes(const MachineFacts& facts, const Needs& needs) {
  return examine_limit(facts, "processes", kThreadsOfARank * needs.ranks);
}

Finding examine_output(const MachineFacts& facts, const Needs& needs) {
  const SpaceFacts& space = facts.output;
  const std::string check = "output";
  if (!space.trouble.empty()) {
    return wrong(check, space.path + ": " + space.trouble, "ls -ld " + space.path);
  }
  if (!space.is_writable) {
    return wrong(check, space.path + " cannot be written", "ls -ld " + space.path);
  }
  const std::string found = space.path + " has " + bytes_text(space.free_bytes) + " free";
  if (space.free_bytes < needs.output_bytes) {
    return wrong(check, found + ", checkpoints and model want " + bytes_text(needs.output_bytes),
                 "df -h " + space.path);
  }
  return fine(check, found);
}

// The number before the first point; 0 if there is none.
int major_of(const std::string& version) {
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

// Why ranks cannot compute on these GPUs, see runtime/README.md; empty if they can.
std::string unfit(const GpuFacts& gpus) {
  if (gpus.gpus.empty()) return "none";
  if (!gpus.driver.empty() && major_of(gpus.driver) < kLeastDriver) {
    return "driver " + gpus.driver + "; ranks on GPUs need " + std::to_string(kLeastDriver) +
           " or newer (CUDA 13.0)";
  }
  for (const Gpu& gpu : gpus.gpus) {
    if (gpu.capability == 0 || gpu.capability >= kLeastCapability) continue;
    return gpu.name + " has compute capability " + runs::short_number(gpu.capability / 10.0, 2) +
           "; ranks on GPUs need 8.0 or more";
  }
  return "";
}

Finding examine_gpus(const MachineFacts& facts, const Needs& needs) {
  const std::string check = "gpu";
  const GpuFacts& gpus = facts.gpus;
  if (!gpus.trouble.empty()) return wrong(check, gpus.trouble, "nvidia-smi");
  const std::string why = unfit(gpus);
  if (why.empty()) {
    return fine(check, counted(static_cast<int64_t>(gpus.gpus.size()), "GPU") +
                           "; ranks compute on them where LOCKSTEP_DEVICE is cuda");
  }
  if (needs.on_gpus) return wrong(check, why + "; LOCKSTEP_DEVICE is cuda", "nvidia-smi");
  return fine(check, why + "; ranks compute on the processor");
}

Finding examine_nccl(const MachineFacts& facts, const Needs&) {
  const std::string check = "nccl";
  const NcclFacts& nccl = facts.nccl;
  if (!nccl.trouble.empty()) return wrong(check, nccl.trouble, "ldconfig -p");
  return fine(check, nccl.version.empty() ? "none that the loader finds; ranks do without"
                                          : nccl.version + "; ranks do without");
}

Finding examine_topology(const MachineFacts& facts, const Needs&) {
  return fine("topology", topology_text(facts));
}

Finding examine_route(const MachineFacts& facts, const Needs&) {
  const RouteFacts& route = facts.route;
  const std::string check = "master";
  if (!route.trouble.empty()) return wrong(check, route.trouble, "getent ahosts " + route.master);
  if (route.interface.empty()) {
    return wrong(check, "no interface has the address " + route.address, "ip address");
  }
  return fine(check, route.master + " by " + route.interface);
}

void examine_ports(const MachineFacts& facts, std::vector<Finding>& findings) {
  for (const PortFacts& port : facts.ports) {
    const std::string check = "port " + std::to_string(port.port);
    if (port.is_free) {
      findings.push_back(fine(check, "free (" + port.why + ")"));
    } else {
      findings.push_back(wrong(check, "another process holds it (" + port.why + ")",
                               "ss -ltnp 'sport = :" + std::to_string(port.port) + "'"));
    }
  }
}

}  // namespace

std::vector<Finding> examine(const MachineFacts& facts, const Needs& needs) {
  std::vector<Finding> findings;
  for (const auto check : {examine_runtime, examine_cpu, examine_cores, examine_memory,
                           examine_shared_memory, examine_files, examine_processes, examine_output,
                           examine_gpus, examine_nccl, examine_topology, examine_route}) {
    findings.push_back(check(facts, needs));
  }
  examine_ports(facts, findings);
  return findings;
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.check.size());
  std::string text;
  int64_t num_wrong = 0;
  for (const Finding& finding : findings) {
    text.append(finding.is_wrong ? "WRONG  " : "ok     ").append(finding.check);
    text.append(width - finding.check.size() + 2, ' ').append(finding.text).append("\n");
    if (!finding.is_wrong) continue;
    ++num_wrong;
    text.append("       next: ").append(finding.next).append("\n");
  }
  return text + (num_wrong == 0 ? "nothing is wrong" : counted(num_wrong, "finding")) + "\n";
}

bool is_anything_wrong(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.is_wrong; });
}

}  // namespace lockstep::machine
