// How a run ended, on all of its nodes alike.
#pragma once

namespace lockstep::local {

enum class RunEnd {
  kSucceeded,
  kFailed,
  kSuspended,  // stopped behind a checkpoint
  kKilled,     // a second Ctrl-C
  kNodeLost,   // a node is gone, and the run with it
};

}  // namespace lockstep::local
