// Stands for the cluster of a local run: carries out plan actions with processes and tells what it
// sees.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/local/node_place.h"
#include "operator/local/rank_process.h"
#include "operator/plan/plan.h"
#include "runtime/common/loopback_port.h"
#include "runtime/common/result.h"

namespace lockstep::local {

struct ProcessClusterOptions {
  std::string output;           // absolute folder; logs go below it
  std::string runtime_program;  // path of lockstep-runtime
  std::string output_mode = "auto";
  NodePlace place;  // the ranks that are started are those of this node
};

// The attempt of a pod that plan() rendered.
int64_t attempt_of(const nlohmann::json& pod);

// One object, one thread.
class ProcessCluster {
 public:
  explicit ProcessCluster(ProcessClusterOptions options);
  // Kills what still runs.
  ~ProcessCluster();
  ProcessCluster(const ProcessCluster&) = delete;
  ProcessCluster& operator=(const ProcessCluster&) = delete;

  common::Result<void> apply(const std::vector<plan::Action>& actions);
  // Reaps ended processes, enforces grace periods, and shows everything as pods of owner `uid`.
  plan::Observation observe(const std::string& owner_uid);

  bool has_live_processes() const;
  void kill_all();

  // 127.0.0.1's port of a rank of an attempt, if that rank runs.
  std::optional<int> metrics_port(int64_t attempt, int64_t rank) const;
  // Log of a rank of an attempt, whether or not it runs.
  std::string log_file(int64_t attempt, int64_t rank) const;

 private:
  struct Process {
    plan::PodView view;
    pid_t pid = 0;
    common::LoopbackPort metrics_port;
    std::string termination_file;
    std::optional<std::chrono::steady_clock::time_point> kill_at;
    bool ended() const { return view.exit.has_value(); }
  };

  struct ConfigMap {
    std::string job_file;      // path of its job.json
    std::string pod_template;  // as in plan::ChildView
  };

  common::Result<void> apply_one(const plan::CreateConfigMap& action);
  common::Result<void> apply_one(const plan::CreateService& action);
  common::Result<void> apply_one(const plan::CreatePod& action);
  common::Result<void> apply_one(const plan::DeletePod& action);
  common::Result<void> apply_one(const plan::DeleteConfigMap& action);
  common::Result<void> apply_one(const plan::EndPodGroup& action);
  common::Result<void> apply_one(const plan::CreatePodGroup& action);
  common::Result<void> apply_one(const plan::DeletePodGroup& action);
  common::Result<void> apply_one(const plan::DeleteJob& action);
  common::Result<void> start(const plan::CreatePod& action);  // throws std::system_error
  void reap(Process& process);
  std::string attempt_dir(int64_t attempt) const;
  std::string node_name() const;

  const ProcessClusterOptions options_;
  std::map<std::string, Process> processes_;      // by pod name
  std::map<std::string, ConfigMap> config_maps_;  // by name
  std::vector<plan::ChildView> services_;
  std::map<int64_t, common::LoopbackPort> master_ports_;  // by attempt
  int next_uid_ = 1;
};

}  // namespace lockstep::local
