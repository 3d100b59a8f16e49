#include "runtime/offload/swap_turns.h"

#include <cstddef>

namespace lockstep::runtime {

std::vector<SwapTurn> plan_swaps(int64_t num_pieces, bool reads, bool writes) {
  std::vector<SwapTurn> turns;
  turns.reserve(static_cast<std::size_t>(num_pieces + 2));
  // Turn p works on piece p; one before the first and one after the last only move.
  for (int64_t piece = -1; piece <= num_pieces; ++piece) {
    const auto in_range = [&](int64_t index) {
      return index >= 0 && index < num_pieces ? index : -1;
    };
    const SwapTurn turn = {.used = in_range(piece),
                           .written = writes ? in_range(piece - 1) : -1,
                           .read = reads ? in_range(piece + 1) : -1};
    if (turn != SwapTurn{}) turns.push_back(turn);
  }
  return turns;
}

}  // namespace lockstep::runtime
