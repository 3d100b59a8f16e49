// The controller's metrics, under the names that controller-runtime's dashboards use.
#pragma once

#include <chrono>
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

  // The text of all series; lockstep_jobs{state} and lockstep_job_{step,restarts,attempt} come from
  // `jobs`.
  std::string text(const std::vector<api::TrainingJob>& jobs);

 private:
  common::Metrics metrics_;
};

}  // namespace lockstep::control
