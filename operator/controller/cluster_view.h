// What the watches of all namespaces looked after, and of nodes, have told, and the observation of
// one job.
//
// Note [A store for each namespace]
// Who may read some namespaces may not list all of them, so each has watches of its own, and stores
// of its own: how far a store has come is that of one watch, and a relist replaces what one told.
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
#include "operator/controller/namespace_view.h"
#include "operator/controller/projection.h"
#include "operator/kube/client.h"
#include "operator/kube/informer.h"
#include "operator/kube/store.h"
#include "operator/plan/plan.h"

namespace lockstep::control {

class ClusterView {
 public:
  struct Options {
    std::vector<std::string> namespaces;                        // empty = all
    std::function<void(const kube::ObjectKey& job)> on_change;  // of a job or a child of it
    std::function<void(const std::string& message)> on_trouble;
    bool watches_nodes = true;  // false: the state of every node is unknown
    kube::WatchSettings watch{};
  };

  // Starts the watches. `client` outlives the view.
  ClusterView(kube::Client& client, const Options& options);

  // Whether nodes, and at least one namespace, have been told of completely. One that is gone, or
  // of which nothing may be read, holds up no other.
  bool has_synced() const;
  // The same of the namespace `ns`: until then its jobs are not to be decided about.
  bool has_synced(const std::string& ns) const;
  std::optional<api::TrainingJob> job(const kube::ObjectKey& key) const;
  std::vector<api::TrainingJob> jobs() const;

  // False while the store of `kind` in the namespace `ns` has not been told of resource version
  // `version` yet.
  bool has_seen(const std::string& ns, ChildKind kind, const std::string& version) const;

  // The job's children, as the stores have them, and the foreign objects remembered for it.
  plan::Observation observe(const api::TrainingJob& job) const;

  // Remembers for kTakenMemory what apply_in_order() found under the job's names. Objects without
  // our label are in no store, so this is how a plan sees them; after that time the name is tried
  // again.
  void remember_taken(const kube::ObjectKey& key, std::vector<TakenName> taken);
  static constexpr std::chrono::seconds kTakenMemory{20};

 private:
  // What is known of a namespace that is looked after.
  const NamespaceView& view_of(const std::string& ns) const;
  plan::NodeState state_of_node(const ObservedPod& pod) const;
  void wake_jobs_on(const std::string& node) const;
  void watch_nodes(kube::Client& client, const Options& options);

  const std::function<void(const kube::ObjectKey& job)> on_change_;
  kube::Store<ObservedNode> nodes_;
  mutable kube::Mutex taken_mutex_;
  struct Taken {
    std::vector<TakenName> names;
    std::chrono::steady_clock::time_point until;
  };
  std::map<kube::ObjectKey, Taken> taken_ GUARDED_BY(taken_mutex_);
  // Last: their threads write into the stores. By namespace; empty = all of them.
  std::map<std::string, std::unique_ptr<NamespaceView>> views_;
  std::unique_ptr<kube::Informer<ObservedNode>> node_informer_;  // null: nodes are not watched
};

}  // namespace lockstep::control
