// When a job's time is over, what stays of it, and whose job it is.
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/plan.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

std::vector<std::string> pods_left(const ModelCluster& cluster) {
  std::vector<std::string> names;
  for (const PodView& pod : cluster.seen.pods) {
    if (!pod.deleting) names.push_back(pod.name);
  }
  return names;
}

ModelCluster cluster_with_deadline(int64_t limit) {
  api::TrainingJob job = training_job(2);
  job.spec.active_deadline = seconds(limit);
  return running_cluster(job);
}

TEST(PlanLifecycleTest, JobFailsAtItsDeadlineAndItsRanksStopInGoodOrder) {
  ModelCluster cluster = cluster_with_deadline(100);
  cluster.job.spec.clean_pod_policy = api::CleanPodPolicy::kNone;
  cluster.now = kStart + seconds(90);
  EXPECT_EQ(cluster.decide().requeue_after, seconds(2));
  cluster.now = kStart + seconds(99);
  EXPECT_FALSE(is_finished(cluster.decide().status));
  EXPECT_EQ(cluster.decide().requeue_after, seconds(1));
  cluster.now = kStart + seconds(100);
  const Plan over = cluster.decide();
  EXPECT_TRUE(has_reason(over.status, kFailed, "DeadlineExceeded"));
  EXPECT_TRUE(over.actions.empty());
  cluster.apply(over);
  const Plan stopping = cluster.decide();
  ASSERT_EQ(stopping.actions.size(), 2U);
  for (const Action& action : stopping.actions) {
    EXPECT_EQ(std::get<DeletePod>(action).grace_seconds, 135);  // time for a checkpoint
  }
}

TEST(PlanLifecycleTest, DeadlineDoesNotRunWhileTheJobIsSuspended) {
  ModelCluster cluster = cluster_with_deadline(100);
  cluster.now += seconds(40);
  cluster.job.spec.suspend = true;
  cluster.settle();
  cluster.remove_deleting_pods();
  cluster.settle();
  ASSERT_TRUE(is_true(cluster.job.status, kSuspended));
  cluster.now += seconds(5000);
  EXPECT_FALSE(is_finished(cluster.decide().status));
  cluster.job.spec.suspend = false;
  cluster.settle();
  cluster.run_all();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Running");
  cluster.now += seconds(59);
  EXPECT_FALSE(is_finished(cluster.decide().status));
  cluster.now += seconds(1);
  EXPECT_TRUE(is_true(cluster.decide().status, kFailed));
}

TEST(PlanLifecycleTest, BackoffIsPartOfTheActiveTime) {
  ModelCluster cluster = cluster_with_deadline(100);
  cluster.end(0, 70);
  cluster.settle();
  cluster.now = kStart + seconds(100);
  EXPECT_TRUE(has_reason(cluster.decide().status, kFailed, "DeadlineExceeded"));
}

TEST(PlanLifecycleTest, LastRankThatSucceedsAtTheDeadlineWins) {
  ModelCluster cluster = cluster_with_deadline(100);
  cluster.now = kStart + seconds(100);
  cluster.end(0, 0);
  cluster.end(1, 0);
  EXPECT_TRUE(is_true(cluster.decide().status, kSucceeded));
}

TEST(PlanLifecycleTest, FinishedJobIsDeletedWhenItsTimeToLiveIsOver) {
  api::TrainingJob job = training_job(2);
  job.meta.resource_version = "77";
  job.spec.ttl_after_finished = seconds(30);
  ModelCluster cluster = running_cluster(job);
  cluster.now += seconds(1000);
  EXPECT_FALSE(is_finished(cluster.decide().status));
  cluster.end(0, 0);
  cluster.end(1, 0);
  cluster.settle();
  EXPECT_EQ(cluster.decide().requeue_after, seconds(30));
  EXPECT_TRUE(cluster.decide().actions.empty());
  cluster.now += seconds(30);
  const Plan last = cluster.decide();
  ASSERT_EQ(last.actions.size(), 1U);
  const auto& doomed = std::get<DeleteJob>(last.actions[0]);
  EXPECT_EQ(doomed.uid, "job-uid");
  EXPECT_EQ(doomed.resource_version, "77");  // not a job that changed meanwhile
  EXPECT_EQ(last.status, cluster.job.status);
}

TEST(PlanLifecycleTest, CleanPodPolicyDecidesWhichPodsStay) {
  using Names = std::vector<std::string>;
  const struct {
    api::CleanPodPolicy policy;
    Names left;
  } table[] = {{api::CleanPodPolicy::kRunning, {"demo-0-1"}},
               {api::CleanPodPolicy::kAll, {}},
               {api::CleanPodPolicy::kNone, {"demo-0-0", "demo-0-1"}}};
  for (const auto& row : table) {
    api::TrainingJob job = training_job(2);
    job.spec.clean_pod_policy = row.policy;
    ModelCluster cluster = running_cluster(job);
    cluster.end(1, 66);  // fails for good while rank 0 runs
    cluster.settle();
    EXPECT_EQ(pods_left(cluster), row.left) << static_cast<int>(row.policy);
  }
}

TEST(PlanLifecycleTest, FirstFailingPodStaysReadableUntilAnotherOneFails) {
  ModelCluster cluster = running_cluster(training_job(2));
  const auto next_attempt = [&] {
    cluster.settle();
    cluster.remove_deleting_pods();
    cluster.now += seconds(60);
    cluster.settle();
    cluster.run_all();
    cluster.settle();
  };
  cluster.end(1, 70);
  cluster.end(0, 83);
  next_attempt();
  EXPECT_EQ(pods_left(cluster), (std::vector<std::string>{"demo-0-1", "demo-1-0", "demo-1-1"}));
  cluster.end(0, 70);
  next_attempt();
  EXPECT_EQ(pods_left(cluster), (std::vector<std::string>{"demo-1-0", "demo-2-0", "demo-2-1"}));
  EXPECT_EQ(cluster.seen.config_maps.size(), 1U);  // a pod that ended needs no ConfigMap
  for (const int64_t rank : {0, 1}) cluster.end(rank, 0);
  cluster.settle();
  EXPECT_EQ(pods_left(cluster).size(), 3U);
  cluster.job.spec.clean_pod_policy = api::CleanPodPolicy::kAll;
  cluster.settle();
  EXPECT_TRUE(pods_left(cluster).empty());
}

TEST(PlanLifecycleTest, JobOfAnotherControllerIsLeftAlone) {
  ModelCluster cluster(training_job(2));
  cluster.job.spec.managed_by = "example.com/other";
  const Plan next = cluster.decide();
  EXPECT_TRUE(next.actions.empty());
  EXPECT_TRUE(next.events.empty());
  EXPECT_EQ(next.status, api::TrainingJobStatus{});
  EXPECT_FALSE(next.requeue_after.has_value());
  cluster.job.spec.managed_by = api::kOurController;
  EXPECT_TRUE(cluster.decide().status.start_time.has_value());
}

TEST(PlanLifecycleTest, JobThatDoesNotRunShowsNoSpeedAndNoEnd) {
  const auto running = [] {
    ModelCluster cluster = running_cluster(training_job(2));
    cluster.seen.progress = api::ProgressStatus{.step = 7,
                                                .total_steps = 100,
                                                .loss = "2.5000",
                                                .tokens_per_second = 900,
                                                .eta_seconds = 60,
                                                .last_update_time = kStart};
    cluster.settle();
    return cluster;
  };
  ModelCluster failed = running();
  failed.end(0, 66);
  ModelCluster restarting = running();
  restarting.end(0, 70);
  ModelCluster suspended = running();
  suspended.job.spec.suspend = true;
  suspended.settle();
  suspended.remove_deleting_pods();
  for (ModelCluster* cluster : {&failed, &restarting, &suspended}) {
    EXPECT_EQ(cluster->job.status.progress->tokens_per_second, 900);
    cluster->settle();
    const api::ProgressStatus& progress = *cluster->job.status.progress;
    EXPECT_EQ(progress.tokens_per_second, 0) << cluster->job.status.state;
    EXPECT_FALSE(progress.eta_seconds.has_value()) << cluster->job.status.state;
    EXPECT_EQ(progress.step, 7);
    EXPECT_EQ(progress.loss, "2.5000");
  }
}

}  // namespace
}  // namespace lockstep::plan
