// The file system that one pod's process sees: the host's root under an overlay, the pod's volumes
// at their mount paths, its own /etc/hosts, /dev/shm and termination log. Needs root.
#pragma once

#include <string>
#include <vector>

namespace lockstep::testing {

struct BindMount {
  std::string source;  // file or folder on the host
  std::string target;  // absolute path in the pod; made if absent
  bool read_only = false;
};

struct PodSandbox {
  std::string state_dir;            // the pod's own folder on the host
  std::string hosts_file;           // shared by all pods; rewritten in place as addresses come
  std::string termination_file;     // becomes /dev/termination-log
  std::vector<BindMount> mounts;    // volumes
  std::vector<std::string> shared;  // host folders seen as they are (sources, build, cache)
};

// Moves the calling process into the sandbox: new mount namespace, new root. For use between fork
// and exec only. Throws std::system_error naming the failed step.
void enter_sandbox(const PodSandbox& sandbox);

}  // namespace lockstep::testing
