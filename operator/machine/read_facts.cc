#include "operator/machine/read_facts.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "operator/machine/cgroup.h"
#include "operator/machine/gpus.h"
#include "operator/machine/route.h"
#include "runtime/common/text_file.h"

namespace lockstep::machine {
namespace {

namespace fs = std::filesystem;

CpuFacts read_cpu(const utsname& names) {
  CpuFacts cpu = parse_cpuinfo(read_text("/proc/cpuinfo").value_or(""));
  cpu.architecture = names.machine;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) cpu.num_cores = CPU_COUNT(&cores);
  cpu.num_nodes = count_list(read_text("/sys/devices/system/node/online").value_or(""));
  // More cores than the set has room for.
  if (cpu.num_cores == 0) cpu.num_cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cpu;
}

// The folder itself, or what is there of the way to it.
fs::path nearest_folder(const std::string& path) {
  std::error_code unseen;
  fs::path folder = fs::absolute(path, unseen).lexically_normal();
  while (!fs::exists(folder, unseen) && folder != folder.root_path()) folder = folder.parent_path();
  return folder;
}

SpaceFacts read_space(const std::string& path, const fs::path& folder) {
  SpaceFacts space{.path = path};
  struct statvfs status = {};
  std::error_code unseen;
  if (!fs::is_directory(folder, unseen)) {
    space.trouble = fs::exists(folder, unseen) ? folder.string() + " is no folder"
                                               : "there is no " + folder.string();
  } else if (statvfs(folder.c_str(), &status) != 0) {
    space.trouble = std::strerror(errno);
  } else {
    const auto unit = static_cast<int64_t>(status.f_frsize);
    space.total_bytes = static_cast<int64_t>(status.f_blocks) * unit;
    space.free_bytes = static_cast<int64_t>(status.f_bavail) * unit;
    // Nobody, not even root, makes files where there is no room by construction: /proc, /sys.
    space.is_writable = access(folder.c_str(), W_OK | X_OK) == 0 && space.total_bytes > 0 &&
                        (status.f_flag & ST_RDONLY) == 0;
  }
  return space;
}

UserLimit read_limit(const char* name, const char* letter, __rlimit_resource resource,
                     bool is_bytes = false) {
  UserLimit limit{.name = name, .ulimit = letter, .is_bytes = is_bytes};
  rlimit found = {};
  if (getrlimit(resource, &found) != 0) return limit;
  const auto value = [](rlim_t number) -> std::optional<int64_t> {
    if (number == RLIM_INFINITY) return std::nullopt;
    return static_cast<int64_t>(number);
  };
  limit.soft = value(found.rlim_cur);
  limit.hard = value(found.rlim_max);
  return limit;
}

// Whether a rank could listen there.
bool is_free(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  // Two sockets with SO_REUSEADDR may bind one port; only listening tells whether it is free.
  const bool is_ours =
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      listen(fd, 1) == 0;
  close(fd);
  return is_ours;
}

}  // namespace

std::optional<std::string> read_text(const std::string& path) {
  common::Result<std::string> text = common::read_text_file(path);
  if (!text) return std::nullopt;
  return std::move(text).value();
}

MachineFacts read_facts(const Asked& asked) {
  utsname names = {};
  uname(&names);
  MachineFacts facts;
  facts.system = parse_os_release(read_text("/etc/os-release").value_or(""));
  facts.kernel = std::string(names.sysname) + " " + names.release;
  facts.cpu = read_cpu(names);
  facts.cgroup = read_cgroup(read_text);
  facts.memory = parse_meminfo(read_text("/proc/meminfo").value_or(""));
  facts.shared_memory = read_space(asked.shared_memory, asked.shared_memory);
  facts.output = read_space(asked.output, nearest_folder(asked.output));
  facts.gpus = read_gpus(kNvmlLibrary, read_text);
  facts.nccl = read_nccl(kNcclLibrary);
  facts.limits = {read_limit("open files", "n", RLIMIT_NOFILE),
                  read_limit("processes", "u", RLIMIT_NPROC),
                  read_limit("locked memory", "l", RLIMIT_MEMLOCK, true),
                  read_limit("address space", "v", RLIMIT_AS, true),
                  read_limit("file size", "f", RLIMIT_FSIZE, true)};
  facts.route = read_route(asked.master);
  facts.ports = asked.ports;
  for (PortFacts& port : facts.ports) port.is_free = is_free(port.port);
  return facts;
}

}  // namespace lockstep::machine
