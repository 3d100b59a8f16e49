// Small things that ranks tell one another outside of the training step.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {

// The texts of all ranks, by rank. Every rank must call it in the same order; blocks for two
// collectives. Throws as Pending::wait(). `what` names it in errors.
std::vector<std::string> gather_texts(Collective& collective, std::string_view mine,
                                      std::string_view what);

// Goes on only if no rank has failed. Every rank must call it in the same order.
// Throws RunError(mine) on a rank that failed, PeerLostError naming rank and reason on the others:
// only a rank with a failure of its own can be the cause.
void agree(Collective& collective, const std::optional<RunFailure>& mine, std::string_view what);

// agree() on a Result; returns its value.
template <typename T>
T agree_on(Collective& collective, common::Result<T> mine, common::ExitCode code,
           std::string_view what) {
  std::optional<RunFailure> failure;
  if (!mine) failure = to_failure(code, mine.error());
  agree(collective, failure, what);
  if constexpr (!std::is_void_v<T>) return std::move(mine).value();
}

}  // namespace lockstep::runtime
