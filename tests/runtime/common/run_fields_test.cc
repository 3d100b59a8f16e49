// The section `logging`.
#include <gtest/gtest.h>

#include "runtime/common/train_config.h"
#include "tests/runtime/common/minimal_train.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

TEST(LoggingFieldsTest, EveryTenthStepAndNothingElseUnlessGiven) {
  const LoggingConfig logging = decode_train(minimal()).logging;
  EXPECT_EQ(logging.every_steps, 10);
  EXPECT_FALSE(logging.tensorboard);
  EXPECT_EQ(logging.profile.steps, 0);
  EXPECT_EQ(logging.peak_flops_per_rank, 0.0);
}

TEST(LoggingFieldsTest, WhatIsGivenArrives) {
  const json train = with("/logging", json::parse(R"({"everySteps": 3, "tensorboard": true,
                                       "peakFlopsPerRank": 1e12, "profile": {"fromStep": 20}})"));
  ASSERT_TRUE(check_train(train, 4, "t").empty());
  const LoggingConfig logging = decode_train(train).logging;
  EXPECT_EQ(logging.every_steps, 3);
  EXPECT_TRUE(logging.tensorboard);
  EXPECT_EQ(logging.profile.from_step, 20);
  EXPECT_EQ(logging.profile.steps, 3);
  EXPECT_EQ(logging.peak_flops_per_rank, 1e12);
}

TEST(LoggingFieldsTest, AProfileBeyondTheLastStepIsRefused) {
  const Problems problems = check_train(with("/logging/profile", {{"fromStep", 101}}), 1, "t");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "t.logging.profile.fromStep");
  EXPECT_EQ(problems[0].message, "must be at most steps 100, found 101");
}

TEST(LoggingFieldsTest, BoundsAreHeld) {
  EXPECT_EQ(check_train(with("/logging/profile", json::object()), 1, "t").size(), 1U);
  EXPECT_EQ(check_train(with("/logging/profile", {{"fromStep", 1}, {"steps", 101}}), 1, "t").size(),
            1U);
  EXPECT_EQ(check_train(with("/logging/peakFlopsPerRank", 0), 1, "t").size(), 1U);
}

}  // namespace
}  // namespace lockstep::common
