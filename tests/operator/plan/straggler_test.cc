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

TEST(StragglerTest, ItStaysNamedUntilItHasKeptUpAsOftenAsItLagged) {
  StepTimes times;
  int64_t step = 0;
  const auto take = [&](double seconds, int count) {
    for (int i = 0; i < count; ++i) times.add(sample(++step, {1.0, seconds}));
  };
  take(2.0, 4);
  EXPECT_FALSE(times.is_known());
  take(2.0, 1);
  EXPECT_TRUE(times.is_known());
  for (int i = 0; i < 20; ++i) {  // what alternates names nobody and clears nobody
    take(1.0, 4);
    ASSERT_TRUE(times.straggler().has_value());
    take(2.0, 1);
  }
  take(1.0, 5);
  EXPECT_FALSE(times.straggler().has_value());
  EXPECT_TRUE(times.is_known());
  for (int i = 0; i < 20; ++i) {
    take(2.0, 4);
    ASSERT_FALSE(times.straggler().has_value());
    take(1.0, 1);
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
  cluster.seen.straggler.reset();  // an operator that has just started knows nothing
  next = cluster.decide();
  EXPECT_EQ(next.status, cluster.job.status);
  EXPECT_TRUE(next.status.straggler.has_value());
  cluster.seen.knows_stragglers = true;
  next = cluster.decide();
  EXPECT_FALSE(next.status.straggler.has_value());
  EXPECT_EQ(next.status.message, "");
}

TEST(StragglerTest, TheConditionComesAndGoesAsConditionsDo) {
  ModelCluster cluster = running_cluster(training_job(2));
  EXPECT_EQ(find_condition(cluster.job.status, kStraggling), nullptr) << "nothing to tell";
  cluster.now += std::chrono::seconds(60);
  cluster.seen.straggler = Lag{.rank = 1, .ratio = 1.8};
  cluster.seen.knows_stragglers = true;
  cluster.settle();
  const api::Time since = cluster.now;
  const api::Condition* condition = find_condition(cluster.job.status, kStraggling);
  ASSERT_NE(condition, nullptr);
  EXPECT_EQ(condition->status, api::ConditionStatus::kTrue);
  EXPECT_EQ(condition->reason, "SlowRank");
  EXPECT_EQ(condition->message, "rank 1 on node-1 is slow: 1.80 times the median step time");
  EXPECT_EQ(condition->last_transition_time, since);
  EXPECT_EQ(condition->observed_generation, cluster.job.meta.generation);
  for (int round = 0; round < 5; ++round) {  // at rest: another ratio, another time, no write
    cluster.now += std::chrono::seconds(15);
    cluster.seen.straggler->ratio += 0.1;
    const Plan next = cluster.decide();
    api::TrainingJobStatus same = next.status;
    same.goodput = cluster.job.status.goodput;
    EXPECT_EQ(same, cluster.job.status);
    EXPECT_TRUE(next.events.empty());
  }
  cluster.seen.straggler->rank = 0;
  cluster.settle();
  EXPECT_EQ(find_condition(cluster.job.status, kStraggling)->last_transition_time, since)
      << "another rank is no transition";
  cluster.seen.straggler.reset();
  cluster.settle();
  condition = find_condition(cluster.job.status, kStraggling);
  EXPECT_EQ(condition->status, api::ConditionStatus::kFalse);
  EXPECT_EQ(condition->reason, "Recovered");
  EXPECT_EQ(condition->message, "");
  EXPECT_EQ(condition->last_transition_time, cluster.now);
}

TEST(StragglerTest, TheConditionEndsWithTheGang) {
  const auto straggling = [] {
    ModelCluster cluster = running_cluster(training_job(2));
    cluster.seen.straggler = Lag{.rank = 1, .ratio = 1.8};
    cluster.settle();
    EXPECT_TRUE(is_true(cluster.job.status, kStraggling));
    return cluster;
  };
  ModelCluster failed = straggling();
  failed.end(1, 70);
  failed.settle();
  EXPECT_TRUE(has_reason(failed.job.status, kStraggling, "Restarting"));
  ModelCluster succeeded = straggling();
  succeeded.end(0, 0);
  succeeded.end(1, 0);
  succeeded.settle();
  EXPECT_TRUE(has_reason(succeeded.job.status, kStraggling, "Finished"));
  ModelCluster suspended = straggling();
  suspended.job.spec.suspend = true;
  suspended.change_spec();
  suspended.settle();
  suspended.remove_deleting_pods();
  suspended.settle();
  EXPECT_TRUE(has_reason(suspended.job.status, kStraggling, "Suspended"));
}

}  // namespace
}  // namespace lockstep::plan
