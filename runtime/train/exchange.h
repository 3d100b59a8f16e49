// Small things that ranks tell one another outside of the training step.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {

// `mine` of all ranks, by rank; nobody leaves before all have come. Every rank must call it in the
// same order; blocks for a collective. Throws as Pending::wait(). `what` names it in errors.
template <typename T>
std::vector<T> gather_values(Collective& collective, const T& mine, std::string_view what) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(collective.world_size()));
  collective
      .all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), what)
      ->wait();
  return all;
}

// The texts of all ranks, by rank. Every rank must call it in the same order; blocks for two
// collectives. Throws as Pending::wait(). `what` names it in errors.
std::vector<std::string> gather_texts(Collective& collective, std::string_view mine,
                                      std::string_view what);

// Goes on only if no rank has failed. Every rank must call it in the same order.
// Throws RunError(mine) on a rank that failed, PeerLostError naming rank and reason on the others:
// only a rank with a failure of its own can be the cause.
void agree(Collective& collective, const std::optional<RunFailure>& mine, std::string_view what);

// Goes on only if every rank has the text that rank 0 has; `otherwise` is the failure of one that
// has not. Throws and blocks as agree().
void require_as_rank0(Collective& collective, std::string_view mine, const RunFailure& otherwise,
                      std::string_view what);

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
