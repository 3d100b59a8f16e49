// Runs a TrainingJob on this machine with the operator's own planner: observe, plan, apply, again.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "operator/api/training_job.h"
#include "operator/local/process_cluster.h"
#include "operator/plan/plan.h"
#include "runtime/common/progress.h"
#include "runtime/common/result.h"

namespace lockstep::local {

struct ExecutorOptions {
  ProcessClusterOptions processes;
  // Readable once for each Ctrl-C or SIGTERM (a signalfd). The first one suspends the job, which
  // saves a checkpoint; the second one kills the ranks.
  int signal_fd = -1;
  // Called when rank 0 told something new, at most a few times a second.
  std::function<void(const common::JobProgress& progress)> on_progress;
  std::function<void(const plan::Event& event)> on_event;
};

enum class RunEnd { kSucceeded, kFailed, kSuspended, kKilled };

struct RunReport {
  RunEnd end = RunEnd::kFailed;
  api::TrainingJobStatus status;
  std::optional<common::JobProgress> progress;  // the last that rank 0 told
  std::string failed_log;                       // of the first failing rank; empty if none failed
};

// Runs `job` to its end and leaves no process behind. Blocks. Errors: a rank cannot be started, or
// a log or job file cannot be written.
common::Result<RunReport> run_job(api::TrainingJob job, const ExecutorOptions& options);

}  // namespace lockstep::local
