#include "operator/machine/facts_text.h"

#include <algorithm>

#include "operator/runs/html_text.h"
#include "runtime/common/suggest.h"

namespace lockstep::machine {
namespace {

using nlohmann::json;

constexpr std::size_t kNameWidth = 18;

std::string or_unknown(const std::string& text) {
  return text.empty() ? "unknown" : text;
}

std::string cgroup_text(const CgroupFacts& cgroup) {
  if (cgroup.version == 0) return "none";
  std::string text = "version " + std::to_string(cgroup.version);
  text += cgroup.cpus ? ", " + runs::short_number(*cgroup.cpus, 3) + " CPUs" : ", all CPUs";
  return text + (cgroup.memory_bytes ? ", memory " + bytes_text(*cgroup.memory_bytes)
                                     : ", memory without limit");
}

std::string space_text(const SpaceFacts& space) {
  if (!space.trouble.empty()) return space.trouble;
  return bytes_text(space.total_bytes) + ", " + bytes_text(space.free_bytes) + " free" +
         (space.is_writable ? "" : ", cannot be written");
}

std::string gpus_text(const GpuFacts& facts) {
  if (!facts.trouble.empty()) return facts.trouble;
  if (facts.gpus.empty()) {
    const std::string driver = facts.driver.empty() ? "no driver" : "driver " + facts.driver;
    return "none (" + driver + "; " + facts.where_asked + ")";
  }
  std::string text = "driver " + or_unknown(facts.driver);
  for (const Gpu& gpu : facts.gpus) {
    text.append("; ").append(gpu.name).append(", ").append(bytes_text(gpu.memory_bytes));
  }
  return text;
}

// "GPUs 0-1, 0-2 by NVLink; 1-2 by SYS"; pairs of one kind together, in the order of the kinds.
std::string links_text(const GpuFacts& facts) {
  std::string text;
  std::vector<std::string> kinds;
  for (const GpuLink& link : facts.links) {
    if (std::find(kinds.begin(), kinds.end(), link.kind) == kinds.end()) kinds.push_back(link.kind);
  }
  for (const std::string& kind : kinds) {
    std::vector<std::string> pairs;
    for (const GpuLink& link : facts.links) {
      if (link.kind != kind) continue;
      pairs.push_back(std::to_string(link.first) + "-" + std::to_string(link.second));
    }
    text += (text.empty() ? "; GPUs " : "; ") + common::join(pairs, ", ") + " by " + kind;
  }
  return text;
}

std::string nccl_text(const NcclFacts& nccl) {
  if (!nccl.trouble.empty()) return nccl.trouble;
  return nccl.version.empty() ? "none that the loader finds" : nccl.version;
}

std::string limits_text(const std::vector<UserLimit>& limits) {
  const auto value = [](const UserLimit& limit, const std::optional<int64_t>& number) {
    if (!number) return std::string("no limit");
    return limit.is_bytes ? bytes_text(*number) : std::to_string(*number);
  };
  std::string text;
  for (const UserLimit& limit : limits) {
    text.append(text.empty() ? "" : ", ").append(limit.name).append(" ");
    text.append(value(limit, limit.soft));
    if (limit.hard != limit.soft)
      text.append(" (hard ").append(value(limit, limit.hard)).append(")");
  }
  return text;
}

std::string route_text(const RouteFacts& route) {
  if (!route.trouble.empty()) return route.trouble;
  return route.master + " by " + (route.interface.empty() ? "no interface" : route.interface) +
         " (" + route.address + ")";
}

json or_null(const std::string& text) {
  return text.empty() ? json() : json(text);
}

template <typename Number>
json or_null(const std::optional<Number>& number) {
  return number ? json(*number) : json();
}

json space_json(const SpaceFacts& space) {
  if (!space.trouble.empty()) return {{"path", space.path}, {"trouble", space.trouble}};
  return {{"path", space.path},
          {"totalBytes", space.total_bytes},
          {"freeBytes", space.free_bytes},
          {"writable", space.is_writable}};
}

json gpus_json(const GpuFacts& facts) {
  json devices = json::array();
  for (const Gpu& gpu : facts.gpus) {
    devices.push_back(
        {{"name", gpu.name},
         {"memoryBytes", gpu.memory_bytes},
         {"computeCapability", gpu.capability > 0 ? json(gpu.capability / 10.0) : json()}});
  }
  json links = json::array();
  for (const GpuLink& link : facts.links) {
    links.push_back({{"gpus", {link.first, link.second}}, {"by", link.kind}});
  }
  return {{"driver", or_null(facts.driver)},
          {"devices", std::move(devices)},
          {"links", std::move(links)},
          {"trouble", or_null(facts.trouble)}};
}

json limits_json(const std::vector<UserLimit>& limits) {
  json object = json::object();
  for (const UserLimit& limit : limits) {
    object[limit.name] = {{"soft", or_null(limit.soft)}, {"hard", or_null(limit.hard)}};
  }
  return object;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  return runs::short_bytes(static_cast<double>(bytes));
}

std::string topology_text(const MachineFacts& facts) {
  const int64_t nodes = facts.cpu.num_nodes;
  std::string text = nodes == 0 ? "NUMA nodes unknown" : std::to_string(nodes) + " NUMA node";
  return text + (nodes > 1 ? "s" : "") + links_text(facts.gpus);
}

std::string fact_line(const std::string& name, const std::string& text) {
  std::string line = name;
  line.append(name.size() < kNameWidth ? kNameWidth - name.size() : 1, ' ');
  return line + text + "\n";
}

std::string facts_text(const MachineFacts& facts) {
  const ProgramFacts& runtime = facts.runtime;
  const std::string program = runtime.trouble.empty() ? runtime.told : runtime.trouble;
  return fact_line("lockstep", facts.lockstep_version) +
         fact_line("runtime", program + " (" + runtime.path + ")") +
         fact_line("system", or_unknown(facts.system) + ", " + facts.kernel) +
         fact_line("cpu", or_unknown(facts.cpu.model) + ", " + facts.cpu.architecture + ", " +
                              std::to_string(facts.cpu.num_cores) + " cores") +
         fact_line("instruction sets", facts.cpu.instruction_sets.empty()
                                           ? "none that kernels are made for"
                                           : common::join(facts.cpu.instruction_sets, " ")) +
         fact_line("cgroup", cgroup_text(facts.cgroup)) +
         fact_line("memory", bytes_text(facts.memory.total_bytes) + ", " +
                                 bytes_text(facts.memory.available_bytes) + " available") +
         fact_line(facts.shared_memory.path, space_text(facts.shared_memory)) +
         fact_line("gpu", gpus_text(facts.gpus)) + fact_line("nccl", nccl_text(facts.nccl)) +
         fact_line("topology", topology_text(facts)) +
         fact_line("limits", limits_text(facts.limits)) +
         fact_line("master", route_text(facts.route));
}

json facts_json(const MachineFacts& facts) {
  return {{"lockstep", facts.lockstep_version},
          {"runtime",
           {{"path", facts.runtime.path},
            {"version", or_null(facts.runtime.version)},
            {"told", or_null(facts.runtime.told)},
            {"trouble", or_null(facts.runtime.trouble)}}},
          {"system", or_null(facts.system)},
          {"kernel", facts.kernel},
          {"cpu",
           {{"model", or_null(facts.cpu.model)},
            {"architecture", facts.cpu.architecture},
            {"cores", facts.cpu.num_cores},
            {"numaNodes", facts.cpu.num_nodes},
            {"instructionSets", facts.cpu.instruction_sets}}},
          {"cgroup",
           {{"version", facts.cgroup.version},
            {"cpus", or_null(facts.cgroup.cpus)},
            {"memoryBytes", or_null(facts.cgroup.memory_bytes)}}},
          {"memory",
           {{"totalBytes", facts.memory.total_bytes},
            {"availableBytes", facts.memory.available_bytes}}},
          {"sharedMemory", space_json(facts.shared_memory)},
          {"gpu", gpus_json(facts.gpus)},
          {"nccl",
           {{"version", or_null(facts.nccl.version)}, {"trouble", or_null(facts.nccl.trouble)}}},
          {"limits", limits_json(facts.limits)},
          {"master",
           {{"host", facts.route.master},
            {"address", or_null(facts.route.address)},
            {"interface", or_null(facts.route.interface)},
            {"trouble", or_null(facts.route.trouble)}}}};
}

}  // namespace lockstep::machine
