// Work of unknown length that some ranks do before training while the others wait for them.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "runtime/comm/collective.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {

struct SideWork {
  // Does this rank's part on a thread of its own; null: this rank has none. Ends soon once told to
  // stop.
  std::function<std::optional<RunFailure>(const std::stop_token&)> run;
  std::function<int64_t()> progress;  // grows while `run` gets on; read by the caller's thread
  // Called when any rank got on, at most once a second: a sign of life.
  std::function<void()> got_on;
  std::string_view what;  // in errors
};

// Note [Waiting for work of unknown length]
// A collective that one rank enters half an hour late is a hang to the others. So ranks meet once a
// second and tell how far they are, until all are done or one has failed; no wait nears
// communication.timeoutSeconds, and work that stands still on every rank shows as a stall.
//
// Every rank must call it in the same order. Blocks until all ranks are done. Throws RunError on a
// rank whose work failed, PeerLostError naming it on the others, whose work is then told to stop;
// and what `run` throws.
void work_aside(Collective& collective, const SideWork& work);

}  // namespace lockstep::runtime
