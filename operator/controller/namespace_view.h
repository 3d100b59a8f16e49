// What the watches of one namespace, or of all, have told: typed stores of jobs and their children.
#pragma once

#include <functional>
#include <string>

#include "operator/api/training_job.h"
#include "operator/controller/actions.h"
#include "operator/controller/projection.h"
#include "operator/kube/client.h"
#include "operator/kube/informer.h"
#include "operator/kube/store.h"

namespace lockstep::control {

class NamespaceView {
 public:
  struct Options {
    std::string ns;                                             // empty = all namespaces
    std::function<void(const kube::ObjectKey& job)> on_change;  // of a job or a child of it
    std::function<void(const std::string& message)> on_trouble;
    kube::WatchSettings watch{};
  };

  // Starts the watches. `client` outlives the view.
  NamespaceView(kube::Client& client, const Options& options);

  bool has_synced() const;
  // False while the store of `kind` has not been told of resource version `version` yet.
  bool has_seen(ChildKind kind, const std::string& version) const;

  const kube::Store<api::TrainingJob>& jobs() const { return jobs_; }
  const kube::Store<ObservedPod>& pods() const { return pods_; }
  const kube::Store<ObservedChild>& services() const { return services_; }
  const kube::Store<ObservedChild>& config_maps() const { return config_maps_; }

 private:
  kube::Store<api::TrainingJob> jobs_;
  kube::Store<ObservedPod> pods_;
  kube::Store<ObservedChild> services_;
  kube::Store<ObservedChild> config_maps_;
  // Last: their threads write into the stores. Jobs first: a store of children that is newer than
  // that of jobs never shows a child whose job was not there yet as an orphan.
  kube::Informer<api::TrainingJob> job_informer_;
  kube::Informer<ObservedPod> pod_informer_;
  kube::Informer<ObservedChild> service_informer_;
  kube::Informer<ObservedChild> config_map_informer_;
};

}  // namespace lockstep::control
