// The controller's metrics, under the names that controller-runtime's dashboards use.
#pragma once

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/kube/mutex.h"
#include "operator/kube/observer.h"
#include "runtime/common/metrics.h"

namespace lockstep::control {

enum class ReconcileResult { kSuccess, kRequeueAfter, kError };

class ControllerMetrics {
 public:
  // Every series without a label of a request or a job begins at 0.
  explicit ControllerMetrics(int num_workers);

  // Observers that count into this object, which must outlive them.
  kube::RequestObserver request_observer();
  kube::QueueObserver queue_observer();

  using Clock = std::chrono::steady_clock;
  // A worker takes up a job; every call has its on_reconcile() with the same `begin`.
  void on_work(Clock::time_point begin);
  void on_reconcile(ReconcileResult result, Clock::time_point begin, Clock::time_point end);

  // Leader election, under client-go's names: whether this process leads by `lease`, and renewals
  // that had to read the Lease first.
  void on_leader(const std::string& lease, bool leads);
  void on_leader_slow_path(const std::string& lease);
  // A write was not sent because this process does not lead (any more).
  void on_fenced_write();

  // How long the longest of the reconciles under way has taken so far.
  std::chrono::seconds longest_reconcile(Clock::time_point at) const;

  // The text of all series; lockstep_jobs{state} and lockstep_job_* come from `jobs`. Of a
  // finished job there is nothing but its end, and no more than kMaxJobSeries unfinished and as
  // many finished jobs have series: what a scrape costs is bounded.
  std::string text(const std::vector<api::TrainingJob>& jobs) const;

  static constexpr std::size_t kMaxJobSeries = 1000;

 private:
  void tell_workers(Clock::time_point at, common::Metrics& now) const;

  const int num_workers_;
  common::Metrics metrics_;
  mutable kube::Mutex mutex_;
  std::multiset<Clock::time_point> begun_ GUARDED_BY(mutex_);  // of the reconciles under way
};

}  // namespace lockstep::control
