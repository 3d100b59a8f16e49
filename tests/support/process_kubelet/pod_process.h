// One pod's container as a local process: start, signal, reap.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/process_kubelet/pod_sandbox.h"

namespace lockstep::testing {

struct PodCommand {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::vector<std::string> environment;  // NAME=value
  std::string working_dir;
  std::string log_file;  // stdout and stderr
  PodSandbox sandbox;
};

// Starts the command in its sandbox and in a process group of its own; returns its id. A failure to
// enter the sandbox or to execute shows as exit code 127 with the reason in the log.
pid_t start_pod_process(const PodCommand& command);

// The exit code (128 + signal for a killed process) if the process has ended; reaps it.
std::optional<int> reap_pod_process(pid_t pid);

}  // namespace lockstep::testing
