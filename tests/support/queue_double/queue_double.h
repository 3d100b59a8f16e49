// Kueue's side of its contract with groups of plain pods, for tests: what its webhook, its pod
// reconciler and its scheduler do, with one queue whose quota is a number of pods. What it does not
// do: flavors, priorities, borrowing, topologies. Source: kueue keps/976-plain-pods,
// pkg/controller/jobs/pod/{pod_webhook,pod_controller}.go.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"

namespace lockstep::testing {

struct QueueOptions {
  std::string ns;
  std::string queue;  // the one LocalQueue that there is
  int quota = 0;      // pods
  // closed: no group is admitted while it exists; preempt-GROUP: the group is evicted, once.
  std::string orders_dir;
};

// One object, one thread. Each sync() looks at the pods once and does what follows, so a lost call
// is repeated by the next one. What breaks the contract is told on stderr as "EXCESS POD".
class QueueDouble {
 public:
  QueueDouble(kube::Client& client, QueueOptions options);
  void sync();

 private:
  struct Group {
    bool is_admitted = false;
    bool has_workload = false;
    std::string told;  // the condition that the Workload has
  };
  // The pods of one group as they are now, sorted as Kueue does.
  struct Members {
    std::vector<const nlohmann::json*> active, inactive;
    int total = 0, succeeded = 0;
    std::string queue;
    bool is_marked = false;  // not to be retried
    bool has_running = false;
  };

  static Members sort(const std::vector<const nlohmann::json*>& pods);
  static bool is_finished(const Members& members);
  void sync_group(const std::string& name, const Members& members);
  void remove_excess(const Members& members);
  void let_go(const nlohmann::json& pod);
  void open_gate(const nlohmann::json& pod);
  void admit_if_possible(const std::string& name, const Members& members);
  void evict(const std::string& name, const Members& members);
  void tell(const std::string& name, const char* type, bool holds, const std::string& message);
  void forget(const std::string& name);
  bool has_order(const std::string& order) const;
  // What a webhook does before the pod exists: here as soon as it is seen.
  void mark_managed(const nlohmann::json& pod);
  void patch(const nlohmann::json& pod, nlohmann::json change);

  kube::Client& client_;
  const QueueOptions options_;
  std::map<std::string, Group> groups_;
  int used_ = 0;  // pods that hold quota in this sync
};

}  // namespace lockstep::testing
