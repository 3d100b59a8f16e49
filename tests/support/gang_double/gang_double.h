// The side of a scheduler that knows gangs of its contract with our PodGroups, for tests:
// coscheduling's, Volcano's, or that of Kubernetes' own Workload API. It gives nodes to all pods of
// a group or to none, where it has room for a number of pods, and says in the group's status
// why a gang waits. What it does not do: resources, queues, priorities, preemption, topologies.
// Sources: scheduler-plugins pkg/coscheduling/core and apis/scheduling/v1alpha1/types.go; volcano
// pkg/scheduler/plugins/gang and apis/scheduling/v1beta1/types.go; kubernetes KEP-4671.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"

namespace lockstep::testing {

enum class GangDialect { kCoscheduling, kVolcano, kNative };

struct GangOptions {
  std::string ns;
  std::string node;  // gets all pods
  // Files with the schedulers' names (coscheduling, volcano, native): for how many pods each has
  // room; none without a file. Read at each sync.
  std::string rooms_dir;
  std::string coscheduling_name = "gang-scheduler";  // schedulerName of the pods of coscheduling
};

// One object, one thread. Each sync() looks at pods and groups once and does what follows, so a
// lost call is repeated by the next one. What breaks the contract is told on stderr as
// "POD BEFORE ITS GROUP", "EXCESS POD" or "POD OF ANOTHER SCHEDULER".
class GangDouble {
 public:
  GangDouble(kube::Client& client, GangDialect dialect, GangOptions options);
  void sync();

 private:
  // The pods of one group that live and are not being deleted.
  struct Members {
    std::vector<const nlohmann::json*> waiting;  // for a node
    int placed = 0;                              // have one
    int running = 0;
  };

  std::string group_of(const nlohmann::json& pod) const;
  std::string scheduler_name() const;
  int room() const;
  kube::ResourceType group_type() const;
  // How many pods the group says belong together.
  int size_of(const nlohmann::json& group) const;
  void sync_group(const nlohmann::json& group, const Members& members);
  bool bind(const nlohmann::json& pod);
  // Brings the group's status to what this scheduler would say.
  void tell(const nlohmann::json& group, const Members& members, const std::string& wait);
  nlohmann::json status_of(const Members& members, const std::string& wait) const;
  void report_breaches(const std::map<std::string, Members>& members);
  void breach(const char* what, const std::string& name);

  kube::Client& client_;
  const GangDialect dialect_;
  const GangOptions options_;
  std::set<std::string> known_groups_;          // that ever were
  std::set<std::string> breaches_;              // told once each
  std::map<std::string, nlohmann::json> told_;  // by UID of the group
  int used_ = 0;                                // pods of its groups that hold the node
};

}  // namespace lockstep::testing
