#include "runtime/offload/swap_turns.h"

#include <array>
#include <utility>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(SwapTurnsTest, ReadTheNextAndWriteTheOneBeforeWhileOneIsUsed) {
  EXPECT_EQ(plan_swaps(3, true, true), (std::vector<SwapTurn>{{.read = 0},
                                                              {.used = 0, .read = 1},
                                                              {.used = 1, .written = 0, .read = 2},
                                                              {.used = 2, .written = 1},
                                                              {.written = 2}}));
}

TEST(SwapTurnsTest, MoveNothingThatIsNotAskedFor) {
  EXPECT_TRUE(plan_swaps(0, true, true).empty());
  EXPECT_EQ(plan_swaps(2, true, false),
            (std::vector<SwapTurn>{{.read = 0}, {.used = 0, .read = 1}, {.used = 1}}));
  EXPECT_EQ(plan_swaps(2, false, true),
            (std::vector<SwapTurn>{{.used = 0}, {.used = 1, .written = 0}, {.written = 1}}));
}

// Carries the turns out on two windows: no piece is used before it is there, lost before it is
// written, or touched by both sides at once.
TEST(SwapTurnsTest, KeepEveryPieceUntilItIsWrittenForAnyNumberOfPieces) {
  for (int64_t num_pieces = 0; num_pieces < 20; ++num_pieces) {
    std::array<int64_t, kSwapWindows> holds = {-1, -1};
    const auto held = [&](int64_t piece) -> int64_t& {
      return holds[static_cast<size_t>(window_of(piece))];
    };
    std::vector<int64_t> used;
    std::vector<int64_t> written;
    for (const SwapTurn& turn : plan_swaps(num_pieces, true, true)) {
      if (turn.used >= 0) {
        EXPECT_EQ(held(turn.used), turn.used);
        for (const int64_t moved : {turn.written, turn.read}) {
          EXPECT_TRUE(moved < 0 || window_of(moved) != window_of(turn.used));
        }
        used.push_back(turn.used);
      }
      if (turn.written >= 0) {
        EXPECT_EQ(held(turn.written), turn.written);
        written.push_back(turn.written);
      }
      if (turn.read < 0) continue;
      const int64_t lost = std::exchange(held(turn.read), turn.read);
      EXPECT_TRUE(lost < 0 || (!written.empty() && written.back() >= lost)) << lost;
    }
    EXPECT_EQ(static_cast<int64_t>(used.size()), num_pieces);
    EXPECT_EQ(written, used);
  }
}

}  // namespace
}  // namespace lockstep::runtime
