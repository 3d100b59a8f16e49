#include "operator/machine/cgroup.h"

#include <algorithm>
#include <sstream>

namespace lockstep::machine {
namespace {

constexpr const char* kRoot = "/sys/fs/cgroup";
constexpr int64_t kNoLimitOfVersion1 = int64_t{1} << 60;  // it writes a number near 2^63 for none

template <typename Number>
void narrow(std::optional<Number>& limit, Number found) {
  if (!limit || found < *limit) limit = found;
}

// "/a/b" -> "/a/b", "/a", "".
std::vector<std::string> folders_up(std::string path) {
  std::vector<std::string> folders;
  while (path.size() > 1) {
    folders.push_back(path);
    path.erase(path.rfind('/'));
  }
  folders.emplace_back();
  return folders;
}

// Path of the group that the line of `controller` names ("" is version 2's); nothing without one.
std::optional<std::string> group_of(const std::string& text, const std::string& controller) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    if (controller.empty() && second == first + 1) return line.substr(second + 1);
    for (std::string name; std::getline(names, name, ',');) {
      if (name == controller) return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

std::optional<int64_t> number_in(const ReadFile& read, const std::string& path) {
  const std::optional<std::string> text = read(path);
  int64_t value = 0;
  if (!text || !(std::istringstream(*text) >> value)) return std::nullopt;
  return value;
}

// "inactive_file 4096" of a memory.stat; 0 without it.
int64_t droppable_bytes(const ReadFile& read, const std::string& path, const std::string& key) {
  std::istringstream lines(read(path).value_or(""));
  std::string name;
  for (int64_t value = 0; lines >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

// The files of one group that tell of its memory, by version.
struct MemoryFiles {
  const char *limit, *used, *droppable_key;
};
constexpr MemoryFiles kMemoryFiles2 = {"/memory.max", "/memory.current", "inactive_file"};
constexpr MemoryFiles kMemoryFiles1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                       "total_inactive_file"};

void add_memory(const ReadFile& read, const std::string& at, const MemoryFiles& files,
                CgroupFacts& facts) {
  const auto limit = number_in(read, at + files.limit);
  if (!limit || *limit >= kNoLimitOfVersion1) return;
  narrow(facts.memory_bytes, *limit);
  const auto used = number_in(read, at + files.used);
  if (!used) return;
  const int64_t held = *used - droppable_bytes(read, at + "/memory.stat", files.droppable_key);
  narrow(facts.memory_free_bytes, std::max<int64_t>(0, *limit - std::max<int64_t>(0, held)));
}

CgroupFacts read_version_2(const ReadFile& read, const std::string& group) {
  CgroupFacts facts{.version = 2, .cpus = std::nullopt, .memory_bytes = std::nullopt};
  for (const std::string& folder : folders_up(group)) {
    const std::string at = kRoot + folder;
    add_memory(read, at, kMemoryFiles2, facts);
    const std::optional<std::string> text = read(at + "/cpu.max");
    double quota = 0, period = 0;
    if (text && std::istringstream(*text) >> quota >> period && period > 0) {
      narrow(facts.cpus, quota / period);
    }
  }
  return facts;
}

CgroupFacts read_version_1(const ReadFile& read, const std::string& text) {
  CgroupFacts facts{.version = 1, .cpus = std::nullopt, .memory_bytes = std::nullopt};
  for (const std::string& folder : folders_up(group_of(text, "memory").value_or(""))) {
    add_memory(read, std::string(kRoot) + "/memory" + folder, kMemoryFiles1, facts);
  }
  for (const std::string& folder : folders_up(group_of(text, "cpu").value_or(""))) {
    const std::string at = std::string(kRoot) + "/cpu" + folder;
    const auto quota = number_in(read, at + "/cpu.cfs_quota_us");
    const auto period = number_in(read, at + "/cpu.cfs_period_us");
    if (quota && period && *quota > 0 && *period > 0) {
      narrow(facts.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
    }
  }
  return facts;
}

}  // namespace

CgroupFacts read_cgroup(const ReadFile& read) {
  const std::string text = read("/proc/self/cgroup").value_or("");
  // Both may be mounted; then version 1 has the controllers.
  if (group_of(text, "memory") || group_of(text, "cpu")) return read_version_1(read, text);
  const std::optional<std::string> group = group_of(text, "");
  return group ? read_version_2(read, *group) : CgroupFacts{};
}

}  // namespace lockstep::machine
