// What the launcher of a pod's ranks does next. Pure.
//
// Note [Who is to blame]
// The first rank to end with a failure is the cause, for the others fail because of it. Two kinds
// of end do not count while there is a better one: PeerLost, where a rank says itself that another
// one went away, and whatever became of a rank after it was told to end. Only words of the rank's
// own make an exit code typed: a program of the user's own may exit 83 for reasons of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/common/exit_code.h"

namespace lockstep::launch {

using Clock = std::chrono::steady_clock;

// How a rank ended.
struct RankEnd {
  int exit_code = 0;  // 128 + signal if a signal ended it
  Clock::time_point at{};
  std::optional<common::TerminationMessage> told{};
  bool is_forced = false;  // it was told to end, because another rank had failed
};

// A rank that only lost its peer waits so long for a better cause from its own pod.
inline constexpr std::chrono::seconds kCauseDelay{10};
// Ranks that were told to end are killed so much later.
inline constexpr std::chrono::seconds kEndPatience{5};
// A killed rank that the kernel does not give up is left behind so much later.
inline constexpr std::chrono::seconds kKillPatience{5};

struct Gang {
  std::vector<std::optional<RankEnd>> ends;  // by local rank; nothing = it runs
  std::chrono::seconds grace{30};            // what a stop in good order may take
  std::chrono::milliseconds end_patience = kEndPatience;
  // When SIGTERM or the like was passed on to the ranks.
  std::optional<Clock::time_point> stop_asked{};
  // When the ranks that still run were told to end.
  std::optional<Clock::time_point> ending_since{};
};

enum class Move {
  kWait,        // until a rank ends, or `wake`
  kEndOthers,   // tell the ranks that run to end
  kKillOthers,  // they had their time
  kExit,        // with the end of `cause`, or with success if there is none
};

struct Decision {
  Move move = Move::kWait;
  std::optional<Clock::time_point> wake{};
  std::optional<std::size_t> cause{};  // local rank that is to blame, as far as is known
};

// What a stop in good order may take of a pod's grace period: at its end there is time left to end
// the ranks that hang and to say who they were, before the kubelet kills us too.
std::chrono::seconds stop_time(std::chrono::seconds pod_grace);

// From the first failure that is no stop in good order, all ranks have ended within kCauseDelay +
// end_patience + kKillPatience; a stop in good order has `grace` before that.
Decision decide(const Gang& gang, Clock::time_point now);

// The termination message of a pod whose cause is `rank`.
//   last_line: of the rank's output, or what else it left; for a rank without words of its own.
common::TerminationMessage last_words(const RankEnd& end, int rank, const std::string& last_line);

}  // namespace lockstep::launch
