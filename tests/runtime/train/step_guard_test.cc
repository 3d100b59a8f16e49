#include "runtime/train/step_guard.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using common::DType;

// Judges steps in order, '.' finite and 'x' not; stops where the run is given up.
struct Outcome {
  StepHistory history;
  std::size_t steps = 0;  // judged
  bool gave_up = false;
};

Outcome judge_all(const common::TrainConfig& config, const std::string& steps) {
  Outcome outcome = {.history = initial_history(config)};
  for (const char step : steps) {
    const StepVerdict verdict = judge_step(config, outcome.history, step == '.');
    outcome.history = verdict.next;
    ++outcome.steps;
    if (verdict.gives_up) {
      outcome.gave_up = true;
      break;
    }
  }
  return outcome;
}

TEST(StepGuardTest, GivesUpAfterMoreThanSoManySkipsInARow) {
  for (const DType precision : {DType::kFp32, DType::kBf16}) {
    common::TrainConfig config;
    config.precision = precision;
    const Outcome outcome = judge_all(config, "..xxx.xxxx.");  // 3 are skipped, 4 are not
    EXPECT_TRUE(outcome.gave_up);
    EXPECT_EQ(outcome.steps, 10U);
    EXPECT_EQ(outcome.history.skipped_steps, 7);
    EXPECT_EQ(outcome.history.loss_scale.scale, 1);

    config.non_finite.max_consecutive_skips = 0;
    EXPECT_EQ(judge_all(config, ".x").gave_up, true) << "0 ends the run at the first";
  }
}

TEST(StepGuardTest, OverflowsThatLowerTheScaleDoNotCount) {
  common::TrainConfig config;
  config.precision = DType::kFp16;
  config.loss_scale = {.initial_power = 4, .hysteresis = 2};
  const Outcome falling = judge_all(config, "xxxxx");  // hysteresis, then 8, 4, 2, 1
  EXPECT_FALSE(falling.gave_up);
  EXPECT_EQ(falling.history.skipped_steps, 5);
  EXPECT_EQ(falling.history.consecutive_skips, 0);
  EXPECT_EQ(falling.history.loss_scale.scale, 1);
  EXPECT_FALSE(judge_all(config, "xxxxxxxx").gave_up) << "three more are skipped";
  EXPECT_TRUE(judge_all(config, "xxxxxxxxx").gave_up);
}

TEST(StepGuardTest, AFixedScaleCannotFall) {
  common::TrainConfig config;
  config.precision = DType::kFp16;
  config.loss_scale.fixed = 1024;
  EXPECT_EQ(initial_history(config).loss_scale.scale, 1024);
  EXPECT_TRUE(judge_all(config, "xxxx").gave_up);
}

}  // namespace
}  // namespace lockstep::runtime
