#include "operator/plan/budget.h"

#include <gtest/gtest.h>

#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using api::RestartBudget;
using std::chrono::seconds;

constexpr int kInternal = 70;

TEST(BudgetTest, ChargesUntilNothingIsLeftAndRefillsOnANewerCheckpoint) {
  const struct {
    RestartBudget before;
    int64_t max_restarts, checkpoint;
    std::optional<RestartBudget> after;
  } table[] = {
      {{0, 0}, 3, 0, RestartBudget{1, 0}},
      {{2, 0}, 3, 0, RestartBudget{3, 0}},
      {{3, 0}, 3, 0, std::nullopt},
      {{3, 100}, 3, 100, std::nullopt},
      {{3, 100}, 3, 101, RestartBudget{1, 101}},
      {{3, 100}, 3, 50, std::nullopt},           // an older checkpoint is no progress
      {{1, 100}, 3, 50, RestartBudget{2, 100}},  // and does not lower the mark
      {{0, 0}, 0, 0, std::nullopt},
      {{0, 0}, 0, 100, std::nullopt},  // maxRestarts 0 is never, not once per checkpoint
  };
  for (const auto& row : table) {
    EXPECT_EQ(charge(row.before, row.max_restarts, row.checkpoint), row.after)
        << row.before.used << " " << row.checkpoint;
  }
}

// All ranks of the next attempt run, and rank 0 tells of `checkpoint`.
void run_again(ModelCluster& cluster, int64_t checkpoint) {
  cluster.now += seconds(60);
  cluster.settle();
  cluster.run_all();
  cluster.seen.progress = api::ProgressStatus{.step = checkpoint + 5,
                                              .total_steps = 1000,
                                              .last_checkpoint_step = checkpoint,
                                              .last_update_time = cluster.now};
  cluster.settle();
}

TEST(BudgetTest, JobThatMakesCheckpointsBetweenItsFailuresNeverRunsOutOfRestarts) {
  api::TrainingJob job = training_job(2);
  job.spec.failure_policy.max_restarts = 1;
  ModelCluster cluster = running_cluster(job);
  for (int64_t round = 1; round <= 5; ++round) {
    run_again(cluster, 100 * round);
    cluster.end(0, kInternal);
    cluster.settle();
    ASSERT_EQ(cluster.job.status.restarts, round);
    EXPECT_EQ(cluster.job.status.budget, (RestartBudget{1, 100 * round}));
    EXPECT_EQ(cluster.job.status.restart_not_before, cluster.now + seconds(1));
  }
  run_again(cluster, 500);  // no newer one
  cluster.end(1, kInternal);
  cluster.settle();
  EXPECT_TRUE(has_reason(cluster.job.status, kFailed, "RestartBudgetSpent"));
  EXPECT_NE(cluster.job.status.message.find("since the checkpoint of step 500"), std::string::npos);
}

TEST(BudgetTest, GangOfPeerLossesIsChargedOnce) {
  ModelCluster cluster = running_cluster(training_job(4));
  cluster.end(2, kInternal);
  for (const int64_t rank : {0, 1, 3}) cluster.end(rank, 83);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.restarts, 1);
  EXPECT_EQ(cluster.job.status.budget.used, 1);
}

TEST(BudgetTest, CheckpointThatRankZeroToldLastCountsEvenIfItWasNotWrittenYet) {
  api::TrainingJob job = training_job(2);
  job.spec.failure_policy.max_restarts = 1;
  ModelCluster cluster = running_cluster(job);
  cluster.seen.progress = api::ProgressStatus{
      .step = 5, .total_steps = 9, .last_checkpoint_step = 4, .last_update_time = cluster.now};
  cluster.settle();
  cluster.seen.progress->last_checkpoint_step = 5;  // a second later: too soon for a write
  cluster.seen.progress->last_update_time += seconds(1);
  cluster.end(0, kInternal);
  EXPECT_EQ(cluster.decide().status.budget.checkpoint_step, 5);
}

}  // namespace
}  // namespace lockstep::plan
