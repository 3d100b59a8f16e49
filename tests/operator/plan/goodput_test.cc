#include "operator/plan/goodput.h"

#include <gtest/gtest.h>

#include "operator/api/codec.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

api::ProgressStatus at_step(int64_t step, int64_t checkpoint, api::Time now) {
  return {.step = step,
          .total_steps = 100,
          .tokens_per_second = 10,
          .last_checkpoint_step = checkpoint,
          .last_update_time = now};
}

const api::Goodput& goodput(const ModelCluster& cluster) {
  return cluster.job.status.goodput.value();
}

// A job that was created at kStart, waited 5 s for the operator, 10 s for nodes, 20 s for its first
// step, and has made 40 steps in 80 s since.
ModelCluster productive_cluster() {
  api::TrainingJob job = training_job(2);
  job.meta.creation_time = kStart;
  ModelCluster cluster(job);
  cluster.now += seconds(5);
  cluster.settle();
  cluster.now += seconds(10);
  cluster.run_all();
  cluster.settle();
  cluster.now += seconds(20);
  cluster.seen.progress = at_step(1, 0, cluster.now);
  cluster.settle();
  cluster.now += seconds(80);
  cluster.seen.progress = at_step(40, 30, cluster.now);
  cluster.settle();
  return cluster;
}

TEST(GoodputTest, TimeIsCountedToThePhaseThatItPassedIn) {
  const ModelCluster cluster = productive_cluster();
  EXPECT_EQ(goodput(cluster).queued_seconds, 5);
  EXPECT_EQ(goodput(cluster).scheduling_seconds, 10);
  EXPECT_EQ(goodput(cluster).starting_seconds, 20);
  EXPECT_EQ(goodput(cluster).productive_seconds, 80);
  EXPECT_EQ(goodput(cluster).phase, "Productive");
  EXPECT_EQ(api::goodput_ratio(goodput(cluster)), "0.73");  // 80 / 110: queueing is not counted
}

TEST(GoodputTest, FailureMovesTheStepsSinceTheCheckpointToLost) {
  ModelCluster cluster = productive_cluster();
  cluster.now += seconds(80);  // 40 steps more, none saved
  cluster.seen.progress = at_step(80, 30, cluster.now);
  cluster.end(0, 70);
  cluster.settle();
  EXPECT_EQ(goodput(cluster).lost_steps, 50);
  EXPECT_EQ(goodput(cluster).lost_seconds, 100);  // 50 of 80 steps, which took 160 s
  EXPECT_EQ(goodput(cluster).productive_seconds, 60);
  EXPECT_EQ(goodput(cluster).phase, "Down");
  cluster.seen.progress.reset();
  cluster.now += seconds(7);
  cluster.settle();
  cluster.run_all();
  cluster.settle();
  EXPECT_EQ(goodput(cluster).down_seconds, 7);
  EXPECT_EQ(goodput(cluster).phase, "Starting");
}

TEST(GoodputTest, PreemptedGangHasSavedItsLastStepAndLosesNone) {
  ModelCluster cluster = productive_cluster();
  cluster.end(0, 85);
  cluster.end(1, 85);
  cluster.settle();
  EXPECT_EQ(goodput(cluster).lost_steps, 0);
  EXPECT_EQ(goodput(cluster).lost_seconds, 0);
}

TEST(GoodputTest, SuspendedTimeIsCountedApart) {
  ModelCluster cluster = productive_cluster();
  cluster.job.spec.suspend = true;
  cluster.settle();
  cluster.remove_deleting_pods();
  cluster.settle();
  cluster.now += seconds(1000);
  cluster.job.spec.suspend = false;
  cluster.settle();
  EXPECT_EQ(goodput(cluster).suspended_seconds, 1000);
  EXPECT_EQ(goodput(cluster).phase, "Scheduling");
  EXPECT_EQ(api::goodput_ratio(goodput(cluster)), "0.73");
}

TEST(GoodputTest, FinishedJobCountsNoMore) {
  ModelCluster cluster = productive_cluster();
  cluster.now += seconds(20);
  cluster.end(0, 0);
  cluster.end(1, 0);
  cluster.settle();
  EXPECT_EQ(goodput(cluster).productive_seconds, 100);
  EXPECT_EQ(goodput(cluster).phase, "");
  cluster.now += seconds(500);
  cluster.settle();
  EXPECT_EQ(goodput(cluster).productive_seconds, 100);
}

TEST(GoodputTest, ProgramOfTheUsersOwnIsProductiveWhileItsRanksRun) {
  ModelCluster cluster = running_cluster(command_job(2));
  EXPECT_EQ(goodput(cluster).phase, "Productive");
}

TEST(GoodputTest, ClockThatIsSetBackTakesNothingAway) {
  ModelCluster cluster = productive_cluster();
  const api::Goodput before = goodput(cluster);
  cluster.now -= seconds(3600);
  cluster.end(0, 0);
  cluster.end(1, 0);
  cluster.settle();
  EXPECT_EQ(goodput(cluster).productive_seconds, before.productive_seconds);
}

}  // namespace
}  // namespace lockstep::plan
