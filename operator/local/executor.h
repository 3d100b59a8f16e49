// Runs a TrainingJob on this machine with the operator's own planner: observe, plan, apply, again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/local/node_link.h"
#include "operator/local/process_cluster.h"
#include "operator/local/run_end.h"
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

struct RunReport {
  RunEnd end = RunEnd::kFailed;
  api::TrainingJobStatus status;
  std::optional<common::JobProgress> progress;  // the last that rank 0 told
  std::string failed_log;                       // of the first failing rank; empty if none failed
  std::string lost_node;                        // which and why; empty unless the end is kNodeLost
};

// Runs `job` to its end and leaves no process behind. Blocks. Errors: a rank cannot be started, or
// a log or job file cannot be written, on any node; the other nodes are told that too.
//   others: links to the nodes 1, 2, ... of options.processes.place, which is node 0's; empty with
//   one node. They end with this one, and are told how. A node that is lost ends the run.
common::Result<RunReport> run_job(api::TrainingJob job, const ExecutorOptions& options,
                                  std::vector<NodeLink> others = {});

}  // namespace lockstep::local
