#include "operator/plan/stall.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;
using Pulses = std::vector<Pulse>;

Pulse beat(int64_t rank, int64_t age, int64_t step = 7) {
  return {.rank = rank, .age = seconds(age), .step = step};
}
// It said that it was `told` seconds old, and that was `age - told` seconds ago.
Pulse last_heard(int64_t rank, int64_t age, int64_t told) {
  return {.rank = rank, .age = seconds(age), .step = 7, .told = seconds(told)};
}
Pulse silence(int64_t rank) {
  return {.rank = rank};
}

ModelCluster stalling_cluster(Pulses pulses) {
  api::TrainingJob job = training_job(2);
  job.spec.failure_policy.stall_timeout = seconds(60);
  ModelCluster cluster = running_cluster(job);
  cluster.seen.pulses = std::move(pulses);
  return cluster;
}

TEST(StallTest, OnlyAGangInWhichEveryAnswerIsOldHasStalled) {
  const struct {
    const char* what;
    Pulses pulses;
    int64_t rank;  // that is named; -1 = no stall
  } table[] = {
      {"nobody was asked", {}, -1},
      {"only rank 0 was asked", {beat(0, 500)}, -1},
      {"one rank is young", {beat(0, 500), beat(1, 59)}, -1},
      {"all are old, the oldest is named", {beat(0, 60), beat(1, 61)}, 1},
      {"equally old, the earlier step is named", {beat(0, 70, 8), beat(1, 70, 7)}, 1},
      {"equally old and far, the lower rank is named", {beat(0, 70), beat(1, 70)}, 0},
      {"a rank that was young when it answered is waited for",
       {beat(0, 70), last_heard(1, 90, 2)},
       -1},
      {"all said that they are old", {last_heard(0, 62, 61), last_heard(1, 61, 30)}, 0},
      {"a silent rank beside old ones is named", {beat(0, 500), silence(1)}, 1},
      {"a silent rank beside a young one proves nothing", {beat(0, 5), silence(1)}, -1},
      {"silence alone proves nothing", {silence(0), silence(1)}, -1},
  };
  for (const auto& row : table) {
    const Plan next = stalling_cluster(row.pulses).decide();
    EXPECT_EQ(next.status.attempt, row.rank < 0 ? 0 : 1) << row.what;
    EXPECT_EQ(is_true(next.status, kStalled), row.rank >= 0) << row.what;
    if (row.rank < 0) continue;
    EXPECT_EQ(next.status.first_failure->rank, row.rank) << row.what;
    EXPECT_EQ(next.status.first_failure->reason, "Stalled");
    EXPECT_EQ(next.status.restarts, 1);  // charged: it may hang again
    EXPECT_TRUE(next.actions.empty());
  }
}

TEST(StallTest, TimeoutOfZeroAndProgramsOfTheUsersOwnNeverStall) {
  ModelCluster cluster = stalling_cluster({beat(0, 5000), beat(1, 5000)});
  cluster.job.spec.failure_policy.stall_timeout = seconds(0);
  EXPECT_EQ(cluster.decide().status.attempt, 0);
  cluster = running_cluster(command_job(2));
  cluster.seen.pulses = {beat(0, 5000), beat(1, 5000)};
  EXPECT_EQ(cluster.decide().status.attempt, 0);
}

TEST(StallTest, StalledStaysTrueUntilTheNextGangRuns) {
  ModelCluster cluster = stalling_cluster({beat(0, 100), silence(1)});
  cluster.settle();
  cluster.seen.pulses.clear();
  cluster.now += seconds(2);
  cluster.settle();
  EXPECT_TRUE(is_true(cluster.job.status, kStalled));
  cluster.run_all();
  cluster.settle();
  EXPECT_FALSE(is_true(cluster.job.status, kStalled));
  EXPECT_TRUE(is_true(cluster.job.status, kRunning));
}

TEST(StallTest, SilentRankOnANodeThatDoesNotAnswerIsALostNode) {
  ModelCluster cluster = stalling_cluster({beat(0, 100), silence(1)});
  cluster.pod(1).node_state = NodeState::kUnready;
  const Plan next = cluster.decide();
  EXPECT_EQ(next.status.first_failure->reason, "NodeLost");
  EXPECT_EQ(next.status.restarts, 0);
  EXPECT_FALSE(is_true(next.status, kStalled));
}

TEST(StallTest, GangIsLookedAtFourTimesInATimeout) {
  ModelCluster cluster = stalling_cluster({});
  cluster.seen.progress = api::ProgressStatus{.step = 1, .last_update_time = kStart};
  cluster.settle();
  EXPECT_EQ(cluster.decide().requeue_after, seconds(15));
  cluster.job.spec.failure_policy.stall_timeout = seconds(20);
  EXPECT_EQ(cluster.decide().requeue_after, seconds(5));
}

TEST(StallTest, OtherRanksAreAskedHalfwayThroughTheTimeout) {
  api::TrainingJob job = training_job(2);
  job.spec.failure_policy.stall_timeout = seconds(60);
  EXPECT_FALSE(asks_every_rank(job, seconds(29)));
  EXPECT_TRUE(asks_every_rank(job, seconds(30)));
  job.spec.failure_policy.stall_timeout = seconds(0);
  EXPECT_FALSE(asks_every_rank(job, seconds(30)));
}

}  // namespace
}  // namespace lockstep::plan
