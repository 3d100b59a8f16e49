// The last words of a rank: termination message, log line, exit code.
#pragma once

#include <cstdint>

#include "runtime/common/log.h"
#include "runtime/common/worker_env.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {

// Logs `failure` and writes env.termination_path, which Kubernetes (or the local executor) reads
// after the exit. A path whose folder does not exist is skipped: nobody reads it.
//   step: last finished step.
void report_failure(const common::WorkerEnv& env, const common::Log& log, int64_t step,
                    const RunFailure& failure);

// The message of a rank that was asked to stop.
RunFailure preempted(int64_t step, bool saved);

}  // namespace lockstep::runtime
