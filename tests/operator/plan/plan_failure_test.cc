// What follows from the loss of a rank.
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/plan.h"
#include "operator/plan/status.h"
#include "runtime/common/exit_code.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

constexpr int kPeerLost = static_cast<int>(common::ExitCode::kPeerLost);
constexpr int kPreempted = static_cast<int>(common::ExitCode::kPreempted);
constexpr int kInternal = static_cast<int>(common::ExitCode::kInternal);
constexpr int kInputNotFound = static_cast<int>(common::ExitCode::kInputNotFound);

TEST(PlanFailureTest, FailureRaisesTheAttemptFirstAndThenReplacesTheWholeGang) {
  ModelCluster cluster = running_cluster(training_job(4));
  cluster.end(2, kInternal);
  const Plan raised = cluster.decide();
  EXPECT_TRUE(raised.actions.empty());
  EXPECT_EQ(raised.status.attempt, 1);
  EXPECT_EQ(raised.status.restarts, 1);
  EXPECT_EQ(raised.status.restart_not_before, kStart + seconds(1));
  EXPECT_EQ(raised.status.state, "Restarting");
  EXPECT_FALSE(is_true(raised.status, kRunning));
  ASSERT_TRUE(raised.status.first_failure.has_value());
  EXPECT_EQ(raised.status.first_failure->rank, 2);
  EXPECT_EQ(raised.status.first_failure->attempt, 0);
  EXPECT_EQ(raised.status.first_failure->node, "node-2");
  EXPECT_EQ(raised.status.first_failure->exit_code, kInternal);
  EXPECT_EQ(raised.status.first_failure->reason, "Internal");
  cluster.apply(raised);

  const Plan cleared = cluster.decide();  // in the backoff: the old gang goes, nothing comes yet
  ASSERT_EQ(cleared.actions.size(), 3u);  // the pod that failed first stays to be read
  for (const Action& action : cleared.actions) {
    ASSERT_TRUE(std::holds_alternative<DeletePod>(action));
    EXPECT_NE(std::get<DeletePod>(action).name, "demo-0-2");
    EXPECT_EQ(std::get<DeletePod>(action).grace_seconds, 1);
  }
  EXPECT_EQ(cleared.requeue_after, seconds(1));
  cluster.apply(cleared);

  cluster.now += seconds(1);  // old pods still there: they do not block
  cluster.settle();
  EXPECT_EQ(cluster.pod(3).name, "demo-1-3");
  EXPECT_FALSE(cluster.job.status.restart_not_before.has_value());
  EXPECT_EQ(cluster.job.status.state, "Restarting");
  cluster.run_all();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Running");
}

TEST(PlanFailureTest, ConfigMapOfAnOldAttemptGoesWithItsLastPod) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.end(0, kInternal);
  cluster.settle();
  EXPECT_EQ(cluster.seen.config_maps.size(), 1u);
  EXPECT_EQ(cluster.seen.config_maps[0].name, "demo-0");
  cluster.remove_deleting_pods();
  cluster.now += seconds(1);
  cluster.settle();
  ASSERT_EQ(cluster.seen.config_maps.size(), 1u);
  EXPECT_EQ(cluster.seen.config_maps[0].name, "demo-1");
}

TEST(PlanFailureTest, SpentBudgetFailsTheJobWithTheFirstFailure) {
  api::TrainingJob job = training_job(2);
  job.spec.failure_policy.max_restarts = 2;
  ModelCluster cluster = running_cluster(job);
  for (int round = 0; round < 2; ++round) {
    cluster.end(1, kInternal);
    cluster.settle();
    cluster.now += seconds(60);
    cluster.settle();
    cluster.run_all();
    cluster.settle();
  }
  EXPECT_EQ(cluster.job.status.restarts, 2);
  cluster.end(1, kInternal);
  cluster.settle();
  EXPECT_TRUE(is_true(cluster.job.status, kFailed));
  EXPECT_TRUE(has_reason(cluster.job.status, kFailed, "RestartBudgetSpent"));
  EXPECT_EQ(cluster.job.status.restarts, 2);
  EXPECT_EQ(cluster.job.status.attempt, 2);
  EXPECT_EQ(cluster.job.status.state, "Failed");
  EXPECT_TRUE(cluster.job.status.completion_time.has_value());
}

TEST(PlanFailureTest, ErrorThatWouldComeAgainFailsAtOnceAndSaysWhatToDo) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.end(1, kInputNotFound,
              common::encode({.rank = 1,
                              .reason = "InputNotFound",
                              .message = "/data/text does not exist",
                              .hint = "mount it with spec.inputs"}));
  cluster.settle();
  EXPECT_TRUE(has_reason(cluster.job.status, kFailed, "InputNotFound"));
  EXPECT_EQ(cluster.job.status.restarts, 0);
  EXPECT_EQ(cluster.job.status.message,
            "rank 1 on node-1: InputNotFound: /data/text does not exist "
            "(mount it with spec.inputs)");
  EXPECT_EQ(cluster.job.status.first_failure->hint, "mount it with spec.inputs");
}

TEST(PlanFailureTest, PeerLossWaitsForItsCause) {
  ModelCluster cluster = running_cluster(training_job(4));
  cluster.end(0, kPeerLost);
  Plan next = cluster.decide();
  EXPECT_EQ(next.status.attempt, 0);
  EXPECT_TRUE(next.actions.empty());
  EXPECT_EQ(next.status.ranks.failed, 1);
  cluster.apply(next);
  cluster.now += seconds(3);
  cluster.end(3, kInternal);  // later than the peer loss, and yet the cause
  next = cluster.decide();
  EXPECT_EQ(next.status.attempt, 1);
  EXPECT_EQ(next.status.first_failure->rank, 3);
}

TEST(PlanFailureTest, PeerLossWithoutACauseIsActedOnInTheEnd) {
  ModelCluster cluster = running_cluster(training_job(4));
  cluster.end(0, kPeerLost);
  cluster.settle();
  EXPECT_LE(cluster.decide().requeue_after, seconds(10));
  cluster.now += seconds(10);
  EXPECT_EQ(cluster.decide().status.attempt, 1);
  EXPECT_EQ(cluster.decide().status.first_failure->reason, "PeerLost");
}

TEST(PlanFailureTest, PreemptedGangMaySaveItsCheckpointAndRestartsFree) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.pod(1).deleting = true;  // a drain: both ranks save the same step
  cluster.pod(1).deletion_deadline = cluster.now + seconds(135);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 0);
  cluster.end(1, kPreempted);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 0);
  EXPECT_FALSE(cluster.pod(0).deleting);
  cluster.end(0, kPreempted);
  const Plan next = cluster.decide();
  EXPECT_EQ(next.status.attempt, 1);
  EXPECT_EQ(next.status.restarts, 0);
  EXPECT_EQ(next.status.restart_not_before, cluster.now + seconds(5));
}

TEST(PlanFailureTest, RankThatVanishesFromARunningGangRestartsItFree) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.remove_pod("demo-0-1");
  const Plan next = cluster.decide();
  EXPECT_TRUE(next.actions.empty());
  EXPECT_EQ(next.status.attempt, 1);
  EXPECT_EQ(next.status.restarts, 0);
  EXPECT_EQ(next.status.first_failure->reason, "PodDeleted");
  EXPECT_EQ(next.status.first_failure->rank, 1);
}

TEST(PlanFailureTest, RankThatVanishesBeforeTheGangHadNodesIsCreatedAgain) {
  ModelCluster cluster(training_job(2));
  cluster.settle();
  cluster.pod(0).node = "n1";
  cluster.pod(0).phase = PodPhase::kRunning;  // waits at the rendezvous
  cluster.settle();
  cluster.remove_pod("demo-0-1");
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 0);
  EXPECT_NO_THROW(cluster.pod(1));
}

TEST(PlanFailureTest, PodThatNeverEndsAfterItsDeletionCountsAsANodeLoss) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.pod(1).deleting = true;
  cluster.pod(1).deletion_deadline = cluster.now + seconds(135);
  cluster.settle();
  const Plan waiting = cluster.decide();
  EXPECT_EQ(waiting.status.attempt, 0);
  EXPECT_TRUE(waiting.requeue_after.has_value());
  cluster.now += seconds(166);
  const Plan next = cluster.decide();
  EXPECT_EQ(next.status.attempt, 1);
  EXPECT_EQ(next.status.restarts, 0);
  EXPECT_EQ(next.status.first_failure->reason, "NodeLost");
}

TEST(PlanFailureTest, EvictedPodRestartsFree) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.end(0, 137);
  cluster.pod(0).reason = "Evicted";
  EXPECT_EQ(cluster.decide().status.attempt, 1);
  EXPECT_EQ(cluster.decide().status.restarts, 0);
}

TEST(PlanFailureTest, FailuresOfOlderAttemptsAreHistory) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.end(0, kInternal);
  cluster.settle();
  cluster.now += seconds(1);
  cluster.settle();
  PodView& old = cluster.add_pod(0, 1, "job-uid");
  old.phase = PodPhase::kFailed;
  old.exit = ContainerExit{.exit_code = kInputNotFound};
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_FALSE(is_true(cluster.job.status, kFailed));
}

TEST(PlanFailureTest, FailureWhileSuspendingIsNotCharged) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.job.spec.suspend = true;
  cluster.change_spec();
  cluster.settle();
  cluster.end(0, kInternal);
  cluster.end(1, kPeerLost);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.restarts, 0);
  EXPECT_TRUE(is_true(cluster.job.status, kSuspended));
}

}  // namespace
}  // namespace lockstep::plan
