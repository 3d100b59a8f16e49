#include "runtime/train/termination.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace lockstep::runtime {

using common::ExitCode;

void report_failure(const common::WorkerEnv& env, const common::Log& log, int64_t step,
                    const RunFailure& failure) {
  const std::string reason(common::reason_of(failure.code));
  const bool asked_for = failure.code == ExitCode::kPreempted;
  const auto say = asked_for ? &common::Log::info : &common::Log::error;
  (log.*say)("exit", {{"exit_code", static_cast<int>(failure.code)},
                      {"reason", reason},
                      {"step", step},
                      {"message", failure.message},
                      {"hint", failure.hint}});

  const std::filesystem::path path(env.termination_path);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  if (env.termination_path.empty() || !std::filesystem::is_directory(folder, ignored)) return;
  std::ofstream file(path, std::ios::trunc);
  file << encode(common::TerminationMessage{.rank = env.rank,
                                            .step = step,
                                            .reason = reason,
                                            .message = failure.message,
                                            .hint = failure.hint})
       << "\n";
  file.close();
  if (!file) log.warning("termination message not written", {{"path", env.termination_path}});
}

RunFailure preempted(int64_t step, bool saved) {
  if (!saved) return {ExitCode::kPreempted, "asked to stop; nothing was unsaved", ""};
  return {ExitCode::kPreempted, "asked to stop; saved step " + std::to_string(step),
          "start it again to go on"};
}

}  // namespace lockstep::runtime
