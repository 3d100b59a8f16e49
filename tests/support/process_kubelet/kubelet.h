// A kubelet for tests: runs every pod of the API server as a local process, without containers.
// What it does not do: image pulls, runAsUser, resource limits, probes, init containers; pods run
// as root in the host's network, told apart by an address of their own in 127.0.0.0/8.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "operator/kube/client.h"

namespace lockstep::testing {

struct KubeletOptions {
  std::string state_dir;  // pods/NAME/{pid,log,termination}, volumes/NAMESPACE/CLAIM, hosts
  std::string
      working_dir;      // of every pod: the folder that holds examples/ and the quickstart's corpus
  std::string bin_dir;  // first in the pods' PATH
  std::string
      library_dir;  // host folder that pods see as it is (where LibTorch lies); may be empty
  std::string node = "process-node";
};

// One object, one thread. Each sync() looks at the API server and at its processes once, and acts
// on the differences, so a lost call is repeated by the next one.
class ProcessKubelet {
 public:
  ProcessKubelet(kube::Client& client, KubeletOptions options);
  // Kills the processes that still run.
  ~ProcessKubelet();
  ProcessKubelet(const ProcessKubelet&) = delete;
  ProcessKubelet& operator=(const ProcessKubelet&) = delete;

  // Registers the node; retried by the caller until it succeeds.
  bool register_node();
  void sync();

 private:
  struct Pod {
    std::string name, ns, ip, started_at, directory;
    pid_t pid = -1;
    bool reported_running = false;
    std::optional<int> exit_code;
    bool reported_end = false;
    std::optional<std::chrono::steady_clock::time_point> kill_at;
  };

  // Says that the node is ready, as a kubelet does again and again; false if nobody heard it.
  bool tell_ready();
  void sync_pod(const nlohmann::json& pod);
  void bind_pod(const nlohmann::json& pod);
  void start_pod(const nlohmann::json& pod, Pod& state);
  void report(const nlohmann::json& pod, Pod& state);
  void terminate(const nlohmann::json& pod, Pod& state);
  void forget_deleted(const nlohmann::json& pods);
  // Nothing when a volume's ConfigMap is not there yet.
  std::optional<std::string> volume_source(const nlohmann::json& volume, const Pod& state);
  void write_hosts();

  kube::Client& client_;
  KubeletOptions options_;
  std::map<std::string, Pod> pods_;               // by uid
  std::map<std::string, std::string> addresses_;  // host name -> address
  int next_address_ = 1;
  std::chrono::steady_clock::time_point next_heartbeat_{};
};

}  // namespace lockstep::testing
