// In which order pieces of offloaded state come and go while the piece between is worked on.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::runtime {

inline constexpr int64_t kSwapWindows = 2;

// Piece p has its place in memory in window p % kSwapWindows.
inline int64_t window_of(int64_t piece) {
  return piece % kSwapWindows;
}

// What happens at the same time: one thread works on a piece, another first writes one and then
// reads one. -1: nothing.
struct SwapTurn {
  int64_t used = -1;
  int64_t written = -1;
  int64_t read = -1;
  bool operator==(const SwapTurn&) const = default;
};

// The turns by which pieces 0 .. num_pieces - 1 are worked on in order: while one is used, the next
// is read and the one before is written, which share the other window.
//   reads: pieces are needed as they are stored; writes: they change.
std::vector<SwapTurn> plan_swaps(int64_t num_pieces, bool reads, bool writes);

}  // namespace lockstep::runtime
