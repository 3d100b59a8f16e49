// Pods that hold several ranks: what they look like, and what a plan makes of them.
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/names.h"
#include "operator/plan/plan.h"
#include "operator/plan/render.h"
#include "operator/plan/resources.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using nlohmann::json;
using std::chrono::seconds;

const Settings kSettings = {.runtime_image = "example.test/runtime:1"};

api::TrainingJob job_of_pairs(int64_t ranks) {
  api::TrainingJob job = training_job(ranks);
  job.spec.ranks_per_pod = 2;
  return job;
}

std::map<std::string, std::string> env_of(const json& pod) {
  std::map<std::string, std::string> env;
  for (const json& variable : pod.at("spec").at("containers").at(0).at("env")) {
    env[variable.at("name")] = variable.value("value", "");
  }
  return env;
}

std::vector<std::string> names_of(const ModelCluster& cluster) {
  std::vector<std::string> names;
  for (const PodView& pod : cluster.seen.pods) names.push_back(pod.name);
  return names;
}

std::string words_of(int64_t rank) {
  return R"({"rank":)" + std::to_string(rank) +
         R"(,"step":7,"reason":"ExitCode137","message":"ended by signal 9"})";
}

TEST(RanksPerPodTest, PodTellsItsLauncherWhichRanksToStart) {
  api::TrainingJob job = training_job(8);
  job.spec.resources = {{"limits", {{"nvidia.com/gpu", 1}, {"cpu", "500m"}, {"memory", "64Gi"}}}};
  const AttemptSpec attempt = {.number = 2, .ranks = 8, .ranks_per_pod = 4};
  const json pod = render_pod(job, attempt, 4, kSettings);
  EXPECT_EQ(pod.at("metadata").at("name"), "demo-2-4");
  EXPECT_EQ(pod.at("metadata").at("labels").at(kRankLabel), "4");
  const json& container = pod.at("spec").at("containers").at(0);
  EXPECT_EQ(container.at("command"), json({"lockstep-launch", "lockstep-runtime"}));
  EXPECT_EQ(container.at("resources").at("limits"),
            json({{"nvidia.com/gpu", "4"}, {"cpu", "2000m"}, {"memory", "256Gi"}}));
  auto env = env_of(pod);
  EXPECT_EQ(env.at("RANK"), "4");
  EXPECT_EQ(env.at("WORLD_SIZE"), "8");
  EXPECT_EQ(env.at("LOCAL_RANK"), "0");
  EXPECT_EQ(env.at("LOCAL_WORLD_SIZE"), "4");
  EXPECT_EQ(env.at("MASTER_ADDR"), "demo-2-0.demo");
  EXPECT_EQ(env.at("LOCKSTEP_RANKS_PER_POD"), "4");
  EXPECT_EQ(env.at("LOCKSTEP_GRACE_SECONDS"), "135");
  env = env_of(render_pod(job, {.number = 2, .ranks = 8}, 4, kSettings));
  EXPECT_EQ(env.at("LOCKSTEP_RANKS_PER_POD"), "1");
}

TEST(RanksPerPodTest, OwnCommandIsStartedOncePerPodAsTorchrunExpects) {
  const AttemptSpec attempt = {.number = 0, .ranks = 8, .ranks_per_pod = 4};
  const json pod = render_pod(command_job(8), attempt, 4, kSettings);
  EXPECT_EQ(pod.at("spec").at("containers").at(0).at("command"), json({"python", "train.py"}));
  auto env = env_of(pod);
  EXPECT_EQ(env.at("PET_NNODES"), "2");
  EXPECT_EQ(env.at("PET_NODE_RANK"), "1");
  EXPECT_EQ(env.at("PET_NPROC_PER_NODE"), "4");
}

TEST(RanksPerPodTest, ResourcesThatAreNoQuantitiesStayForTheServerToRefuse) {
  const json odd = {{"limits", {{"cpu", "lots"}, {"memory", true}}}, {"requests", 3}};
  EXPECT_EQ(pod_resources(odd, 2), odd);
  EXPECT_EQ(pod_resources({{"requests", {{"cpu", 0.5}}}}, 3),
            json({{"requests", {{"cpu", "1.5"}}}}));
}

TEST(RanksPerPodTest, GangHasAPodForEveryGroupOfRanksAndCountsRanks) {
  ModelCluster cluster(job_of_pairs(4));
  cluster.settle();
  EXPECT_EQ(names_of(cluster), (std::vector<std::string>{"demo-0-0", "demo-0-2"}));
  cluster.pod(2).waiting_reason = "ImagePullBackOff";
  cluster.pod(0).phase = PodPhase::kRunning;
  EXPECT_EQ(cluster.decide().status.message, "2/4 ranks running; rank 2: ImagePullBackOff");
  cluster.run_all();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.ranks, (api::RankCounts{.desired = 4, .running = 4, .per_pod = 2}));
  EXPECT_EQ(cluster.job.status.state, "Running");
  cluster.end(0, 0);
  EXPECT_EQ(cluster.decide().status.ranks,
            (api::RankCounts{.desired = 4, .running = 2, .succeeded = 2, .per_pod = 2}));
  cluster.end(2, 0);
  cluster.settle();
  EXPECT_TRUE(is_true(cluster.job.status, kSucceeded));
  EXPECT_EQ(cluster.job.status.ranks.succeeded, 4);
}

TEST(RanksPerPodTest, FailureNamesTheRankAndKeepsItsPod) {
  ModelCluster cluster = running_cluster(job_of_pairs(4));
  cluster.end(2, 137, words_of(3));
  cluster.settle();
  ASSERT_TRUE(cluster.job.status.first_failure);
  EXPECT_EQ(cluster.job.status.first_failure->rank, 3);
  EXPECT_EQ(cluster.job.status.first_failure->pod, "demo-0-2");
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_EQ(cluster.job.status.restarts, 1);
  cluster.remove_deleting_pods();
  cluster.now += seconds(60);
  cluster.settle();
  EXPECT_EQ(names_of(cluster), (std::vector<std::string>{"demo-0-2", "demo-1-0", "demo-1-2"}));
}

TEST(RanksPerPodTest, SilentRankIsFoundInsideItsPod) {
  ModelCluster cluster = running_cluster(job_of_pairs(4));
  cluster.job.spec.failure_policy.stall_timeout = seconds(30);
  cluster.seen.pulses = {{.rank = 0, .age = seconds(40), .step = 5},
                         {.rank = 1, .age = seconds(40), .step = 5},
                         {.rank = 2, .age = seconds(40), .step = 5}};
  EXPECT_TRUE(cluster.decide().events.empty()) << "rank 3 was not asked yet";
  cluster.seen.pulses.push_back({.rank = 3, .step = 5});
  cluster.settle();
  ASSERT_TRUE(cluster.job.status.first_failure);
  EXPECT_EQ(cluster.job.status.first_failure->rank, 3);
  EXPECT_EQ(cluster.job.status.first_failure->reason, "Stalled");
  EXPECT_EQ(cluster.job.status.first_failure->pod, "demo-0-2");
}

TEST(RanksPerPodTest, ScalingAddsPodsOfTheSameSize) {
  ModelCluster cluster = running_cluster(job_of_pairs(2));
  cluster.job.spec.ranks = 8;
  cluster.change_spec();
  cluster.settle();
  cluster.remove_deleting_pods();
  cluster.settle();
  EXPECT_EQ(names_of(cluster),
            (std::vector<std::string>{"demo-1-0", "demo-1-2", "demo-1-4", "demo-1-6"}));
}

TEST(RanksPerPodTest, SizeThatIsNoMultipleIsRefusedAndTheGangRunsOn) {
  ModelCluster cluster = running_cluster(job_of_pairs(4));
  cluster.job.spec.ranks = 1;
  cluster.change_spec();
  cluster.settle();
  EXPECT_FALSE(is_true(cluster.job.status, kAccepted));
  EXPECT_EQ(
      find_condition(cluster.job.status, kAccepted)->message,
      "spec.ranksPerPod: 2 does not divide ranks: 1 (every pod has the same number of ranks)");
  EXPECT_EQ(cluster.job.status.state, "Running");
  EXPECT_EQ(cluster.seen.pods.size(), 2u);
}

// The pods of the old grouping are no left-overs: they save a checkpoint, as any others.
TEST(RanksPerPodTest, SpecSuspendedAndRegroupedAtOnceStopsTheOldPodsInGoodOrder) {
  for (const int64_t per_pod : {1, 4}) {
    ModelCluster cluster = running_cluster(job_of_pairs(4));
    cluster.job.spec.suspend = true;
    cluster.job.spec.ranks_per_pod = per_pod;
    cluster.change_spec();
    cluster.settle();
    ASSERT_EQ(cluster.seen.pods.size(), 2u);
    for (const PodView& pod : cluster.seen.pods) {
      EXPECT_EQ(pod.deletion_deadline, cluster.now + seconds(135));
    }
    cluster.remove_deleting_pods();
    cluster.settle();
    EXPECT_TRUE(is_true(cluster.job.status, kSuspended));
    cluster.job.spec.suspend = false;
    cluster.change_spec();
    cluster.settle();
    EXPECT_EQ(cluster.seen.pods.size(), static_cast<std::size_t>(4 / per_pod));
    EXPECT_EQ(cluster.job.status.ranks.per_pod, per_pod);
  }
}

TEST(RanksPerPodTest, EditedStatusThatDoesNotDivideMeansARankPerPod) {
  ModelCluster cluster = running_cluster(training_job(4));
  cluster.job.status.ranks.per_pod = 3;
  const Plan next = cluster.decide();
  EXPECT_TRUE(next.actions.empty());
  EXPECT_EQ(next.status.ranks.running, 4);
}

}  // namespace
}  // namespace lockstep::plan
