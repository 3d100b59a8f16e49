// The first process of a pod that holds several ranks: starts them, passes signals on, ends the
// rest when one fails, and answers on the pod's port for all of them.
//
// Note [No rank outlives the launcher]
// Ranks are killed by the kernel when the launcher's main thread ends, whatever ended it. What a
// rank started itself is in the rank's process group, which is killed when the rank has ended;
// processes that left it become children of the launcher and end with the pod.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/common/worker_env.h"
#include "runtime/launch/decide.h"

namespace lockstep::launch {

// Blocks the signals that launch() waits for. Call it before any thread starts.
void block_signals();

// Runs env.ranks_per_pod copies of `command`, each with RANK, LOCAL_RANK and LOCAL_WORLD_SIZE of
// its own, and returns the pod's exit code: 0 if all ranks succeeded, else that of the first rank
// that failed, whose last words it writes to env.termination_path. The ranks' output comes to our
// standard output, every line with "[rank N] " before it.
//   env: of the pod's first rank.
//   end_patience: what the others get between SIGTERM and SIGKILL when one has failed.
// Blocks until all ranks have ended; see decide.h for how long that may be after a failure.
// Precondition: block_signals(), and no other child process. The caller ends the process next,
// without unwinding: the pages are served until then.
int launch(const std::vector<std::string>& command, const common::WorkerEnv& env,
           std::chrono::milliseconds end_patience = kEndPatience);

}  // namespace lockstep::launch
