// What the operator's benchmark needs of a control plane without nodes: who counts pods as a watch
// tells them, who plays kubelet, and the operator as a process that is measured.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "operator/kube/client.h"
#include "operator/kube/mutex.h"

namespace lockstep::bench {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

inline const kube::ResourceType kPods{"", "v1", "pods"};
inline const kube::ResourceType kNodes{"", "v1", "nodes"};
inline const kube::ResourceType kJobs{"lockstep.dev", "v1alpha1", "trainingjobs"};

// The object of an answer. Throws if the call failed.
nlohmann::json value_of(const kube::ApiResult<nlohmann::json>& answer);

// Calls `one` with each of [0, count) on `threads` threads, in order of taking.
void in_parallel(int count, int threads, const std::function<void(int)>& one);

// Follows the pods of a namespace beside the operator: when each was first told, when its deletion.
class PodWatch {
 public:
  using OnEvent = std::function<void(const nlohmann::json& event)>;
  // `client` outlives this; `on_event` is called on the watch's thread, after the pod is counted.
  PodWatch(kube::Client& client, std::string ns, OnEvent on_event = {});
  // Blocks until `count` pods have been told; the time of the last. Throws after `limit`.
  Clock::time_point await_pods(std::size_t count, std::chrono::seconds limit);
  // Blocks until so many pods with `prefix` have been told; the time of the last of them.
  Clock::time_point await_pods_of(const std::string& prefix, std::size_t count);
  // Blocks until the deletion of some pod with `prefix` has been told; when that was.
  Clock::time_point await_deletion_of(const std::string& prefix);

 private:
  void take(std::string_view line);

  kube::Client& client_;
  const std::string ns_;
  const OnEvent on_event_;
  kube::Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Clock::time_point> added_ GUARDED_BY(mutex_);
  std::map<std::string, Clock::time_point> deleted_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

// Binds every pod to the node `bench`, lets it run and, unless `stays` says so of its name, succeed
// at once; ends the pods that are deleted. The calls are made on threads of its own.
class PodPlayer {
 public:
  PodPlayer(kube::Client& client, std::string ns, std::function<bool(const std::string&)> stays);
  ~PodPlayer();
  PodPlayer(const PodPlayer&) = delete;
  PodPlayer& operator=(const PodPlayer&) = delete;
  void on_event(const nlohmann::json& event);
  // The pod's container ended with `exit_code`.
  void end(const std::string& pod, int exit_code);

 private:
  struct Step {
    std::string pod;
    bool is_deletion = false;
  };
  void work(const std::stop_token& stop);
  void run(const std::string& pod);

  kube::Client& client_;
  const std::string ns_;
  const std::function<bool(const std::string&)> stays_;
  kube::Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Step> steps_ GUARDED_BY(mutex_);
  std::map<std::string, bool> begun_ GUARDED_BY(mutex_);
  std::vector<std::jthread> workers_;
};

// A ready node whose kubelet is us.
void put_node(kube::Client& client, const std::string& name, bool is_ready);

struct Usage {
  double cpu_seconds = 0;
  double resident_mb = 0;
  double peak_mb = 0;  // since the process began
};
Usage usage_of(pid_t pid);

// lockstep-operator on one namespace, without leader election; ended with this.
class Operator {
 public:
  // Blocks until its caches are complete.
  Operator(const std::string& program, const std::string& kubeconfig, const std::string& ns,
           const std::string& log);
  ~Operator();
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  Usage usage() const { return usage_of(pid_); }
  // Requests that it has made, by method; from its own metrics.
  std::map<std::string, double> requests() const;

 private:
  std::string get(const std::string& path) const;

  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace lockstep::bench
