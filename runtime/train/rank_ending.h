// How a rank's process begins and ends.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/common/log.h"
#include "runtime/common/worker_env.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {

// The process's environment. Throws RunError(kInvalidConfig).
common::WorkerEnv read_environment();

// The end of a rank's process, without unwinding: destructors of a rank wait for collectives that a
// lost peer will never finish. The training thread and SIGTERM's may both come to it: the first one
// reports and ends the process, the other waits for that.
class RankEnding {
 public:
  [[noreturn]] void succeed();

  // Reports `failure` at `step` and exits with its code.
  [[noreturn]] void fail(const common::WorkerEnv& env, const common::Log& log, int64_t step,
                         const RunFailure& failure);

 private:
  void claim();

  std::atomic_flag taken_;
};

}  // namespace lockstep::runtime
