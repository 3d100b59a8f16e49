#include "runtime/train/rank_ending.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include "runtime/train/termination.h"

namespace lockstep::runtime {
namespace {

// What the end of a rank waits for the last words to MLflow: the peers of one that failed wait for
// its end.
constexpr std::chrono::seconds kPatienceOfSuccess{15};
constexpr std::chrono::seconds kPatienceOfFailure{5};

[[noreturn]] void exit_with(common::ExitCode code) {
  std::cout.flush();
  _exit(static_cast<int>(code));
}

}  // namespace

std::optional<std::string> look_up_environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

common::WorkerEnv read_environment() {
  return value_or_raise(common::read_worker_env(look_up_environment),
                        common::ExitCode::kInvalidConfig);
}

void RankEnding::tell(std::shared_ptr<MlflowRun> mlflow) {
  mlflow_ = std::move(mlflow);
}

void RankEnding::succeed() {
  claim();
  if (mlflow_) mlflow_->finish(MlflowStatus::kFinished, kPatienceOfSuccess);
  exit_with(common::ExitCode::kSucceeded);
}

void RankEnding::fail(const common::WorkerEnv& env, const common::Log& log, int64_t step,
                      const RunFailure& failure) {
  claim();
  report_failure(env, log, step, failure);
  const bool was_stopped = failure.code == common::ExitCode::kPreempted;
  if (mlflow_) {
    mlflow_->finish(was_stopped ? MlflowStatus::kKilled : MlflowStatus::kFailed,
                    kPatienceOfFailure);
  }
  exit_with(failure.code);
}

void RankEnding::claim() {
  while (taken_.test_and_set()) pause();
}

}  // namespace lockstep::runtime
