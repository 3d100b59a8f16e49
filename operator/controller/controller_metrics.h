// The controller's metrics, under the names that controller-runtime's dashboards use.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/kube/observer.h"
#include "runtime/common/metrics.h"

namespace lockstep::control {

enum class ReconcileResult { kSuccess, kRequeueAfter, kError };

class ControllerMetrics {
 public:
  // Observers that count into this object, which must outlive them.
  kube::RequestObserver request_observer();
  kube::QueueObserver queue_observer();

  void on_reconcile(ReconcileResult result, std::chrono::duration<double> elapsed);

  // The text of all series; lockstep_jobs{state} and lockstep_job_* come from `jobs`. A job that
  // has finished has no series of its own, and no more than kMaxJobSeries jobs have: what a scrape
  // costs is bounded.
  std::string text(const std::vector<api::TrainingJob>& jobs);

  static constexpr std::size_t kMaxJobSeries = 1000;

 private:
  common::Metrics metrics_;
};

}  // namespace lockstep::control
