// lockstep-launch PROGRAM [ARGUMENT...]: the first process of a pod that holds several ranks.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "runtime/common/exit_code.h"
#include "runtime/launch/launcher.h"

namespace lockstep::launch {
namespace {

constexpr const char* kUsage =
    "usage: lockstep-launch PROGRAM [ARGUMENT...]\n"
    "Runs LOCKSTEP_RANKS_PER_POD copies of a program, one for each rank of a pod, with RANK,\n"
    "LOCAL_RANK and LOCAL_WORLD_SIZE of its own. Passes signals on, ends all of them when one\n"
    "fails, exits as that one did, and answers on LOCKSTEP_METRICS_PORT for all ranks.\n";

int run_program(const std::vector<std::string>& command) {
  if (command.empty() || command[0] == "--help") {
    std::fputs(kUsage, command.empty() ? stderr : stdout);
    return command.empty() ? static_cast<int>(common::ExitCode::kInvalidConfig) : 0;
  }
  if (command[0] == "--version") {
    std::puts("lockstep-launch " LOCKSTEP_VERSION);
    return 0;
  }
  block_signals();
  const auto env = common::read_worker_env([](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  });
  if (!env) {
    std::fprintf(stderr, "lockstep-launch: %s\n", env.error().message.c_str());
    return static_cast<int>(common::ExitCode::kInvalidConfig);
  }
  const int exit_code = launch(command, env.value());
  _exit(exit_code);  // the log has no buffer
}

}  // namespace
}  // namespace lockstep::launch

int main(int argc, char** argv) {
  try {
    return lockstep::launch::run_program({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-launch: %s\n", error.what());
    return static_cast<int>(lockstep::common::ExitCode::kInternal);
  }
}
