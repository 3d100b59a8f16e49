// What the watches have told: typed stores of jobs and their children, and the observation of one
// job.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/controller/actions.h"
#include "operator/controller/projection.h"
#include "operator/kube/client.h"
#include "operator/kube/informer.h"
#include "operator/kube/store.h"
#include "operator/plan/plan.h"

namespace lockstep::control {

class ClusterView {
 public:
  struct Options {
    std::string ns;                                             // empty = all namespaces
    std::function<void(const kube::ObjectKey& job)> on_change;  // of a job or a child of it
    std::function<void(const std::string& message)> on_trouble;
    bool watches_nodes = true;  // false: the state of every node is unknown
    kube::WatchSettings watch{};
  };

  // Starts the watches. `client` outlives the view.
  ClusterView(kube::Client& client, Options options);

  bool has_synced() const;
  std::optional<api::TrainingJob> job(const kube::ObjectKey& key) const;
  std::vector<api::TrainingJob> jobs() const { return jobs_.list(); }

  // False while the store of `kind` has not been told of resource version `version` yet.
  bool has_seen(ChildKind kind, const std::string& version) const;

  // The job's children, as the stores have them, and the foreign objects remembered for it.
  plan::Observation observe(const api::TrainingJob& job) const;

  // Remembers for kTakenMemory what apply_in_order() found under the job's names. Objects without
  // our label are in no store, so this is how a plan sees them; after that time the name is tried
  // again.
  void remember_taken(const kube::ObjectKey& key, std::vector<TakenName> taken);
  static constexpr std::chrono::seconds kTakenMemory{20};

 private:
  plan::NodeState state_of_node(const ObservedPod& pod) const;
  void wake_jobs_on(const std::string& node) const;

  const std::function<void(const kube::ObjectKey& job)> on_change_;
  kube::Store<api::TrainingJob> jobs_;
  kube::Store<ObservedPod> pods_;
  kube::Store<ObservedChild> services_;
  kube::Store<ObservedChild> config_maps_;
  kube::Store<ObservedNode> nodes_;
  mutable kube::Mutex taken_mutex_;
  struct Taken {
    std::vector<TakenName> names;
    std::chrono::steady_clock::time_point until;
  };
  std::map<kube::ObjectKey, Taken> taken_ GUARDED_BY(taken_mutex_);
  // Last: their threads write into the stores.
  std::unique_ptr<kube::Informer<ObservedNode>> node_informer_;  // null: nodes are not watched
  std::unique_ptr<kube::Informer<api::TrainingJob>> job_informer_;
  std::unique_ptr<kube::Informer<ObservedPod>> pod_informer_;
  std::unique_ptr<kube::Informer<ObservedChild>> service_informer_;
  std::unique_ptr<kube::Informer<ObservedChild>> config_map_informer_;
};

}  // namespace lockstep::control
