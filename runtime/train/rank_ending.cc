#include "runtime/train/rank_ending.h"

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include <unistd.h>

#include "runtime/train/termination.h"

namespace lockstep::runtime {
namespace {

[[noreturn]] void exit_with(common::ExitCode code) {
  std::cout.flush();
  _exit(static_cast<int>(code));
}

}  // namespace

common::WorkerEnv read_environment() {
  const auto lookup = [](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
  return value_or_raise(common::read_worker_env(lookup), common::ExitCode::kInvalidConfig);
}

void RankEnding::succeed() {
  claim();
  exit_with(common::ExitCode::kSucceeded);
}

void RankEnding::fail(const common::WorkerEnv& env, const common::Log& log, int64_t step,
                      const RunFailure& failure) {
  claim();
  report_failure(env, log, step, failure);
  exit_with(failure.code);
}

void RankEnding::claim() {
  while (taken_.test_and_set()) pause();
}

}  // namespace lockstep::runtime
