// A short-lived program whose output is wanted.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "runtime/common/result.h"

namespace lockstep::kube {

struct Subprocess {
  std::vector<std::string> argv;  // the first: a path, or a name to be found in PATH
  std::vector<std::pair<std::string, std::string>> env;  // on top of ours
  std::chrono::seconds timeout{0};
};

struct SubprocessEnd {
  std::string output;  // at most 1 MiB
  std::string errors;  // at most 64 KiB
  std::string how;     // "exited with 3", "was ended by signal 9", "did not end within 60 s",
                       // "was stopped"; empty: exited with 0
};

// Runs it with no input and blocks until it ends; whoever takes longer, says too much, or still
// runs when `stop` is requested, is killed with all its children. kNotFound if it cannot be
// started.
common::Result<SubprocessEnd> run_subprocess(const Subprocess& program,
                                             const std::stop_token& stop = {});

}  // namespace lockstep::kube
