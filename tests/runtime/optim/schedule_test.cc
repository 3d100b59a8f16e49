#include "runtime/optim/schedule.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using common::ScheduleConfig;
using Kind = ScheduleConfig::Kind;
constexpr auto kLog = ScheduleConfig::Warmup::kLog;

struct Row {
  int64_t step;
  double expected;  // of lr 1 and 100 steps
};

// 1e-15: a few roundings of double.
void expect_rates(const ScheduleConfig& schedule, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    EXPECT_NEAR(lr_at(schedule, 1.0, row.step, 100), row.expected, 1e-15)
        << "kind " << static_cast<int>(schedule.kind) << " step " << row.step;
  }
}

TEST(ScheduleTest, CosineFallsByTheCosineAndStaysAtItsEnd) {
  expect_rates({.warmup_steps = 10, .decay_steps = 90},
               {{1, 0.1}, {5, 0.5}, {10, 1.0}, {55, 0.55}, {100, 0.1}, {200, 0.1}});
  expect_rates({.decay_steps = 100},
               {{25, 0.86819805153394638}, {75, 0.23180194846605362}, {100, 0.1}});
  expect_rates({.warmup_steps = 10, .decay_steps = 40}, {{30, 0.55}, {50, 0.1}, {51, 0.1}});
}

TEST(ScheduleTest, AWarmupOfAllStepsEndsAtFullRate) {
  expect_rates({.warmup_steps = 100}, {{40, 0.4}, {99, 0.99}, {100, 1.0}});
}

TEST(ScheduleTest, LinearFallsInEqualSteps) {
  expect_rates({.kind = Kind::kLinear, .warmup_steps = 10, .decay_steps = 90},
               {{9, 0.9}, {10, 1.0}, {11, 0.99}, {55, 0.55}, {99, 0.11}, {100, 0.1}});
  expect_rates({.kind = Kind::kLinear, .decay_steps = 200}, {{50, 0.775}, {100, 0.55}});
}

TEST(ScheduleTest, ConstantWarmsUpOnlyIfAskedAndNeverFalls) {
  expect_rates({.kind = Kind::kConstant}, {{1, 1.0}, {100, 1.0}});
  expect_rates({.kind = Kind::kConstant, .warmup_steps = 10}, {{1, 0.1}, {10, 1.0}, {99, 1.0}});
}

TEST(ScheduleTest, WarmupStableDecayFallsInTheLastSteps) {
  expect_rates({.kind = Kind::kWarmupStableDecay, .warmup_steps = 10, .decay_steps = 20},
               {{1, 0.1}, {10, 1.0}, {80, 1.0}, {81, 0.955}, {90, 0.55}, {100, 0.1}, {101, 0.1}});
  expect_rates({.kind = Kind::kWarmupStableDecay}, {{1, 1.0}, {99, 1.0}, {100, 1.0}});
  expect_rates({.kind = Kind::kWarmupStableDecay, .warmup_steps = 40, .decay_steps = 60},
               {{39, 0.975}, {40, 1.0}, {41, 0.985}, {100, 0.1}});
}

// gamma = ln(step + 1) / ln(10): log10 of 2, 3, 5, 10. Then DeepSpeed's WarmupLR stays, and its
// WarmupDecayLR with total_num_steps 100 falls to warmup_min_lr.
TEST(ScheduleTest, LogWarmupIsDeepSpeeds) {
  const std::vector<Row> rise = {{1, 0.37092699609758305},
                                 {2, 0.52940912924769620},
                                 {4, 0.72907300390241692},
                                 {9, 1.0},
                                 {10, 1.0}};
  ScheduleConfig warmup_lr = {
      .kind = Kind::kConstant, .warmup = kLog, .warmup_steps = 10, .warmup_min_lr = 0.1};
  expect_rates(warmup_lr, rise);
  expect_rates(warmup_lr, {{11, 1.0}, {100, 1.0}});
  ScheduleConfig warmup_decay_lr = warmup_lr;
  warmup_decay_lr.kind = Kind::kLinear;
  warmup_decay_lr.decay_steps = 90;
  expect_rates(warmup_decay_lr, rise);
  expect_rates(warmup_decay_lr, {{11, 0.99}, {82, 0.28}, {100, 0.1}, {101, 0.1}});
}

TEST(ScheduleTest, LinearWarmupStartsAtItsMinimum) {
  expect_rates({.kind = Kind::kConstant, .warmup_steps = 10, .warmup_min_lr = 0.1},
               {{1, 0.19}, {5, 0.55}, {9, 0.91}, {10, 1.0}});
}

TEST(ScheduleTest, AWarmupOfNoneOrOneStepStartsAtFullRate) {
  for (const int64_t warmup_steps : {0, 1}) {
    expect_rates({.kind = Kind::kConstant, .warmup = kLog, .warmup_steps = warmup_steps},
                 {{1, 1.0}, {2, 1.0}});
  }
}

TEST(ScheduleTest, NeverLearnsAtZeroRateAtTheFirstStep) {
  for (const auto warmup : {ScheduleConfig::Warmup::kLinear, kLog}) {
    for (int64_t warmup_steps = 0; warmup_steps <= 20; ++warmup_steps) {
      EXPECT_GT(lr_at({.warmup = warmup, .warmup_steps = warmup_steps}, 3e-4, 1, 20), 0.0);
    }
  }
}

// Where nothing falls, the rate is lr to the bit, whatever the ratio of the end.
TEST(ScheduleTest, StableStepsRunAtLrToTheBit) {
  for (int i = 0; i <= 100; ++i) {
    const ScheduleConfig schedule = {
        .kind = Kind::kWarmupStableDecay, .decay_steps = 10, .min_lr_ratio = i / 100.0};
    EXPECT_EQ(lr_at(schedule, 3e-4, 90, 100), 3e-4) << i;
  }
}

}  // namespace
}  // namespace lockstep::runtime
