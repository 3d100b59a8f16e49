#include "runtime/train/long_phase.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(LongPhaseTest, ShowsHowFarItIsAndLeavesNothingBehind) {
  StatusBoard board("tiny", 0, 0);
  LongPhase phase(board, "reference");
  EXPECT_EQ(board.progress().phase, "reference");
  EXPECT_FALSE(board.progress().phase_progress);
  EXPECT_FALSE(phase.got_on({.done = 12, .total = 40})) << "no line before ten seconds";
  EXPECT_EQ(board.progress().phase, "reference");
  EXPECT_EQ(board.progress().phase_progress, (common::PhaseProgress{.done = 12, .total = 40}));
  phase.end();
  EXPECT_EQ(board.progress().phase, "starting");
  EXPECT_FALSE(board.progress().phase_progress);
}

TEST(LongPhaseTest, EveryPieceOfWorkIsASignOfLife) {
  StatusBoard board("tiny", 0, 0);
  LongPhase phase(board, "tokenizing");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = *board.progress().age_seconds;
  EXPECT_GE(before, 0.02);
  phase.got_on({.done = 1});
  EXPECT_LT(*board.progress().age_seconds, before);
  EXPECT_NE(board.routes().at("/metrics")().body.find(
                "lockstep_phase{phase=\"tokenizing\",rank=\"0\"} 1"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::runtime
