#include "operator/plan/straggler.h"

#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

common::JobProgress sample(int64_t step, const std::vector<double>& step_seconds) {
  common::JobProgress progress;
  progress.step = step;
  for (std::size_t rank = 0; rank < step_seconds.size(); ++rank) {
    progress.ranks.push_back({.rank = static_cast<int>(rank),
                              .step = step,
                              .step_seconds = step_seconds[rank],
                              .age_seconds = {}});
  }
  return progress;
}

TEST(StragglerTest, RankThatIsSlowestFiveTimesInARowIsNamed) {
  StepTimes times;
  for (int64_t step = 1; step <= 4; ++step) {
    times.add(sample(step, {1.0, 1.1, 1.8, 0.9}));
    times.add(sample(step, {1.0, 1.1, 1.8, 0.9}));  // the same step again is no new sample
    EXPECT_FALSE(times.straggler().has_value());
  }
  times.add(sample(5, {1.0, 1.1, 2.0, 0.9}));
  ASSERT_TRUE(times.straggler().has_value());
  EXPECT_EQ(times.straggler()->rank, 2);
  EXPECT_DOUBLE_EQ(times.straggler()->ratio, 2.0);
}

TEST(StragglerTest, OneQuickStepOrAnotherSlowRankBreaksTheRow) {
  for (const std::vector<double>& other : {std::vector<double>{1.0, 1.4}, {2.0, 1.0}}) {
    StepTimes times;
    for (int64_t step = 1; step <= 4; ++step) times.add(sample(step, {1.0, 2.0}));
    times.add(sample(5, other));
    EXPECT_FALSE(times.straggler().has_value());
  }
}

TEST(StragglerTest, WithTwoRanksTheOtherOneIsTheMeasure) {
  StepTimes times;
  for (int64_t step = 1; step <= 5; ++step) times.add(sample(step, {1.0, 1.6}));
  ASSERT_TRUE(times.straggler().has_value());
  EXPECT_EQ(times.straggler()->rank, 1);
}

TEST(StragglerTest, OlderStepBeginsAnew) {
  StepTimes times;
  for (int64_t step = 10; step <= 14; ++step) times.add(sample(step, {1.0, 1.6}));
  times.add(sample(3, {1.0, 1.6}));
  EXPECT_FALSE(times.straggler().has_value());
}

TEST(StragglerTest, OneRankOrNoTimesNameNobody) {
  StepTimes times;
  for (int64_t step = 1; step <= 5; ++step) times.add(sample(step, {1.0}));
  for (int64_t step = 6; step <= 11; ++step) times.add(sample(step, {0.0, 0.0}));
  EXPECT_FALSE(times.straggler().has_value());
}

TEST(StragglerTest, ItIsReportedOnceWithItsNodeAndChangesNothing) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.seen.straggler = Lag{.rank = 1, .ratio = 1.8};
  Plan next = cluster.decide();
  EXPECT_TRUE(next.actions.empty());
  EXPECT_EQ(next.status.attempt, 0);
  EXPECT_EQ(next.status.message, "rank 1 on node-1 is slow: 1.80 times the median step time");
  ASSERT_EQ(next.events.size(), 1U);
  EXPECT_EQ(next.events[0].reason, "Straggler");
  cluster.apply(next);
  cluster.seen.straggler->ratio = 1.9;
  next = cluster.decide();
  EXPECT_TRUE(next.events.empty());
  EXPECT_EQ(next.status, cluster.job.status);
  cluster.seen.straggler.reset();
  next = cluster.decide();
  EXPECT_FALSE(next.status.straggler.has_value());
  EXPECT_EQ(next.status.message, "");
}

}  // namespace
}  // namespace lockstep::plan
