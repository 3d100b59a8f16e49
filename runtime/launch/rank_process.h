// One rank as a child of the launcher.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "runtime/common/result.h"

namespace lockstep::launch {

struct RankProcess {
  pid_t pid = 0;    // leader of a process group of its own
  int output = -1;  // read end of its standard output and error; never blocks
};

// Starts `command` with `env` on top of our own environment. It is killed when the calling thread
// ends. Errors: kNotFound if there is no such program that may be executed, kUnavailable if there
// is no room for another process at this time.
common::Result<RankProcess> start_rank(const std::vector<std::string>& command,
                                       const std::map<std::string, std::string>& env);

struct EndedProcess {
  pid_t pid = 0;
  int exit_code = 0;  // 128 + signal if a signal ended it
};

// Reaps one child that has ended, whether we started it or it lost its parent, and kills what is
// left of the process group of one that `is_rank`. Nothing if all children run.
std::optional<EndedProcess> reap_one(const std::function<bool(pid_t)>& is_rank);

}  // namespace lockstep::launch
