// One job at a time from what is to what should be: observe, plan, apply, write status, emit
// events.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "operator/api/training_job.h"
#include "operator/controller/actions.h"
#include "operator/controller/cluster_view.h"
#include "operator/controller/gang_discovery.h"
#include "operator/controller/gang_inquiry.h"
#include "operator/controller/progress_poller.h"
#include "operator/controller/queue_inquiry.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"
#include "runtime/common/log.h"
#include "runtime/common/result.h"

namespace lockstep::control {

// What the queue does with the job next.
struct Outcome {
  std::optional<std::chrono::milliseconds> requeue_after;
  static Outcome await_change() { return {}; }
  static Outcome requeue(std::chrono::milliseconds delay) { return {delay}; }
};

class Reconciler {
 public:
  struct Options {
    plan::Settings settings;
    std::function<api::Time()> now;
  };

  // `client`, `view` and `progress` outlive the reconciler.
  Reconciler(kube::Client& client, ClusterView& view, ProgressPoller& progress, Options options);

  // Blocks for the API calls of one plan. An error means: again, after a back-off. Safe from
  // several threads for different jobs; the queue never hands one job to two of them.
  common::Result<Outcome> reconcile(const kube::ObjectKey& key);

 private:
  // The newest of our own writes about a job.
  struct Written {
    api::Time at;
    std::string job_version;
    std::map<ChildKind, std::string> child_versions;
  };

  // False if our stores have not yet seen what we wrote about this job: a plan made from them would
  // decide again what is already decided, or take pods under way for absent.
  bool has_seen_own_writes(const api::TrainingJob& job) const;
  void remember_created(const kube::ObjectKey& key,
                        const std::map<ChildKind, std::string>& versions);
  common::Result<Outcome> end_groups_of(const kube::ObjectKey& key);
  plan::Observation observe(const api::TrainingJob& job);
  void follow_progress(const api::TrainingJob& job, const plan::Observation& seen);
  void forget(const kube::ObjectKey& key);
  // The refusal, if the API server refused.
  std::optional<kube::ApiError> write_if_changed(const api::TrainingJob& job,
                                                 const api::TrainingJobStatus& status);
  void emit(const api::TrainingJob& job, const std::vector<plan::Event>& events) const;

  kube::Client& client_;
  ClusterView& view_;
  ProgressPoller& progress_;
  QueueInquiry queues_;
  GangDiscovery gang_schedulers_;
  GangInquiry gangs_;
  const Options options_;
  const common::Log log_;
  mutable kube::Mutex mutex_;
  std::map<kube::ObjectKey, Written> written_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::control
