// How a rank's process begins and ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/common/log.h"
#include "runtime/common/worker_env.h"
#include "runtime/tracking/mlflow_run.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {

// A variable of the process's environment; nothing if it is not set.
std::optional<std::string> look_up_environment(const std::string& name);

// What the process's environment says of this rank. Throws RunError(kInvalidConfig).
common::WorkerEnv read_environment();

// The end of a rank's process, without unwinding: destructors of a rank wait for collectives that a
// lost peer will never finish. The training thread and SIGTERM's may both come to it: the first one
// reports and ends the process, the other waits for that.
class RankEnding {
 public:
  // `mlflow` is told how the rank ends, the last thing before it does. Call it before another
  // thread may come to the end; null is nobody.
  void tell(std::shared_ptr<MlflowRun> mlflow);

  [[noreturn]] void succeed();

  // Reports `failure` at `step` and exits with its code.
  [[noreturn]] void fail(const common::WorkerEnv& env, const common::Log& log, int64_t step,
                         const RunFailure& failure);

 private:
  void claim();

  std::atomic_flag taken_;
  std::shared_ptr<MlflowRun> mlflow_;
};

}  // namespace lockstep::runtime
