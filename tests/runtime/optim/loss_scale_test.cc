#include "runtime/optim/loss_scale.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// Steps in order, '.' good and 'x' an overflow, and the scale before each of them and after the
// last.
struct Row {
  std::string name;
  common::LossScaleConfig config;
  std::string steps;
  std::vector<double> scales;
};

// The scales are those that DeepSpeed's DynamicLossScaler takes on the same steps.
const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"the first overflow only uses up hysteresis, later ones halve",
       {.initial_power = 3, .window = 1000, .hysteresis = 2},
       ".xx.x",
       {8, 8, 8, 4, 4, 2}},
      {"without hysteresis every overflow halves",
       {.initial_power = 3, .window = 1000, .hysteresis = 1},
       "xx",
       {8, 4, 2}},
      {"doubles after a window of good steps and one more, again after each window",
       {.initial_power = 3, .window = 2, .hysteresis = 1},
       ".......",
       {8, 8, 8, 16, 16, 32, 32, 64}},
      {"an overflow begins the window anew",
       {.initial_power = 3, .window = 2, .hysteresis = 1},
       "..x...",
       {8, 8, 8, 4, 4, 4, 8}},
      {"good steps alone do not fill up hysteresis",
       {.initial_power = 3, .window = 1000, .hysteresis = 2},
       "x...x",
       {8, 8, 8, 8, 8, 4}},
      {"doubling fills it up",
       {.initial_power = 3, .window = 2, .hysteresis = 2},
       "x...x",
       {8, 8, 8, 8, 16, 16}},
      {"never falls below the minimum",
       {.initial_power = 1, .window = 1000, .hysteresis = 1, .min = 0.75},
       "xxx",
       {2, 1, 0.75, 0.75}},
      {"begins at the minimum if that is higher",
       {.initial_power = 0, .window = 1000, .hysteresis = 1, .min = 4},
       "x",
       {4, 4}},
      {"a fixed scale stays", {.fixed = 100, .window = 1}, "x..x", {100, 100, 100, 100, 100}},
  };
  return table;
}

TEST(LossScaleTest, FollowsTheTable) {
  for (const Row& row : rows()) {
    LossScaleState state = initial_loss_scale(row.config);
    std::vector<double> scales = {state.scale};
    for (const char step : row.steps) {
      state = next_loss_scale(row.config, state, step == 'x');
      scales.push_back(state.scale);
    }
    EXPECT_EQ(scales, row.scales) << row.name;
  }
}

TEST(LossScaleTest, DefaultsAreDeepSpeeds) {
  EXPECT_EQ(initial_loss_scale({}), (LossScaleState{.scale = 65536, .hysteresis = 2}));
}

TEST(LossScaleTest, BacksOffUntilTheMinimumIsReachedAndHysteresisUsedUp) {
  const common::LossScaleConfig config = {.initial_power = 1, .hysteresis = 2};
  LossScaleState state = initial_loss_scale(config);
  int num_overflows = 0;
  for (; can_back_off(config, state); ++num_overflows) {
    const LossScaleState next = next_loss_scale(config, state, true);
    EXPECT_NE(next, state);
    state = next;
  }
  EXPECT_EQ(num_overflows, 2);  // one of hysteresis, one from 2 to 1
  EXPECT_FALSE(can_back_off({.fixed = 8}, initial_loss_scale({.fixed = 8})));
}

}  // namespace
}  // namespace lockstep::runtime
