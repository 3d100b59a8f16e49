// One rank as a child process.
#pragma once

#include <optional>

#include <sys/types.h>

#include "operator/local/rank_command.h"
#include "runtime/common/result.h"

namespace lockstep::local {

// Starts the command in a process group of its own (Ctrl-C reaches us alone), with output appended
// to its log; it gets SIGTERM if we die. Errors: kNotFound if the program cannot be executed.
common::Result<pid_t> start_rank(const RankCommand& command);

// The exit code of an ended child, 128 + signal if a signal ended it; nothing while it runs.
std::optional<int> reap_rank(pid_t pid);

}  // namespace lockstep::local
