// A gang of which some pods have nodes and others get none: how long it may hold them, and what
// becomes of it.
#include "operator/plan/half_gang.h"

#include <algorithm>
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

constexpr int kRendezvousTimeout = 72;
constexpr int kInvalidConfig = 78;
constexpr int kPeerLost = 83;

void bind(ModelCluster& cluster, int64_t rank) {
  PodView& pod = cluster.pod(rank);
  pod.node = "node-" + std::to_string(rank);
  pod.bound_at = cluster.now;
}

// Rank 0 of two has had its node since kStart; rank 1 has none.
ModelCluster half_cluster(api::TrainingJob job = training_job(2)) {
  ModelCluster cluster(std::move(job));
  cluster.settle();
  bind(cluster, 0);
  cluster.settle();
  return cluster;
}

bool is_release(const Plan& next, const ModelCluster& before) {
  return next.status.gang_releases == before.job.status.gang_releases + 1 &&
         next.status.attempt == before.job.status.attempt + 1 && next.actions.empty();
}

int64_t count_creations(const Plan& next) {
  return std::count_if(next.actions.begin(), next.actions.end(), [](const Action& action) {
    return std::holds_alternative<CreatePod>(action);
  });
}

TEST(HalfGangTest, NodesAreHeldForTheTimeoutAndNotASecondLonger) {
  ModelCluster cluster = half_cluster();
  EXPECT_EQ(cluster.decide().requeue_after, seconds(300)) << "the default, from the binding on";
  cluster.now = kStart + seconds(299);
  EXPECT_FALSE(is_release(cluster.decide(), cluster));
  EXPECT_EQ(cluster.decide().requeue_after, seconds(1));
  cluster.now = kStart + seconds(300);
  EXPECT_TRUE(is_release(cluster.decide(), cluster));
}

TEST(HalfGangTest, ReleaseCostsNothingAndSaysWhy) {
  ModelCluster cluster = half_cluster();
  cluster.now += seconds(300);
  const Plan next = cluster.decide();
  EXPECT_EQ(next.status.restarts, 0);
  EXPECT_EQ(next.status.budget, api::RestartBudget{});
  EXPECT_FALSE(next.status.first_failure.has_value()) << "nothing has failed";
  ASSERT_EQ(next.events.size(), 1U);
  EXPECT_TRUE(next.events[0].warning);
  EXPECT_EQ(next.events[0].reason, "GangReleased");
  EXPECT_EQ(next.events[0].message.substr(0, 50),
            "1 of 2 pods had nodes while the others got none; t");
}

TEST(HalfGangTest, WholeGangGoesThenNothingComesBeforeThePauseIsOver) {
  ModelCluster cluster = half_cluster();
  cluster.now += seconds(300);
  cluster.apply(cluster.decide());
  const Plan next = cluster.decide();
  ASSERT_EQ(next.actions.size(), 2U);
  EXPECT_EQ(std::get<DeletePod>(next.actions[0]).name, "demo-0-0");
  EXPECT_EQ(std::get<DeletePod>(next.actions[1]).name, "demo-0-1");
  cluster.settle();
  cluster.remove_deleting_pods();
  cluster.settle();
  EXPECT_TRUE(cluster.seen.pods.empty());
  EXPECT_TRUE(has_reason(cluster.job.status, kScheduled, kGangReleased));
  EXPECT_EQ(cluster.job.status.message, "0/2 ranks running; half a gang gave its nodes back once");
  cluster.now = *cluster.job.status.restart_not_before - seconds(1);
  EXPECT_EQ(count_creations(cluster.decide()), 0);
  EXPECT_EQ(cluster.decide().requeue_after, seconds(1));
  cluster.now += seconds(1);
  EXPECT_EQ(count_creations(cluster.decide()), 2);
}

TEST(HalfGangTest, ReleasesAreForgottenOnceTheGangIsWhole) {
  ModelCluster cluster = half_cluster();
  cluster.now += seconds(300);
  cluster.settle();
  cluster.remove_deleting_pods();
  cluster.now += seconds(30);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.gang_releases, 1) << "it waits again";
  EXPECT_TRUE(has_reason(cluster.job.status, kScheduled, "WaitingForNodes"));
  cluster.run_all();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Running");
  EXPECT_EQ(cluster.job.status.gang_releases, 0);
}

TEST(HalfGangTest, GangsInNobodysWayAreLeftAlone) {
  struct Case {
    const char* what;
    ModelCluster cluster;
  };
  std::vector<Case> cases;
  cases.push_back({"holds nothing", ModelCluster(training_job(2))});
  cases.back().cluster.settle();
  cases.push_back({"has all nodes, one just now", half_cluster()});
  bind(cases.back().cluster, 1);
  cases.push_back({"had all nodes once", running_cluster(training_job(2))});
  cases.back().cluster.pod(0).bound_at = kStart;
  cases.back().cluster.pod(1).node.clear();
  cases.back().cluster.pod(1).phase = PodPhase::kPending;
  api::TrainingJob patient = training_job(2);
  patient.spec.scheduling.gang_timeout = seconds(0);
  cases.push_back({"may hold them for ever", half_cluster(patient)});
  cases.push_back({"was bound at a time that nobody tells", half_cluster()});
  cases.back().cluster.pod(0).bound_at.reset();
  for (Case& one : cases) {
    one.cluster.now += seconds(100000);
    EXPECT_FALSE(is_release(one.cluster.decide(), one.cluster)) << one.what;
    one.cluster.settle();
    EXPECT_EQ(one.cluster.job.status.attempt, 0) << one.what;
  }
}

TEST(HalfGangTest, PodThatCannotEvenBeCreatedLeavesHalfAGangToo) {
  ModelCluster cluster = half_cluster();  // a quota that has room for one pod of two
  cluster.remove_pod("demo-0-1");
  cluster.now += seconds(300);
  EXPECT_TRUE(is_release(cluster.decide(), cluster));
}

TEST(HalfGangTest, RankThatGaveUpWaitingForPodsWithoutNodesIsNoFailure) {
  ModelCluster cluster = half_cluster(training_job(4));
  bind(cluster, 1);
  cluster.pod(0).phase = cluster.pod(1).phase = PodPhase::kRunning;
  cluster.settle();
  cluster.now += seconds(60);  // its communication.timeoutSeconds
  cluster.end(0, kRendezvousTimeout);
  cluster.end(1, kPeerLost);  // rank 0 left
  const Plan next = cluster.decide();
  EXPECT_TRUE(is_release(next, cluster));
  EXPECT_EQ(next.status.restarts, 0);
}

TEST(HalfGangTest, RankThatFailsForItselfDecidesWhateverItsPeersWaitFor) {
  ModelCluster cluster = half_cluster();
  cluster.end(0, kInvalidConfig);
  cluster.now += seconds(400);
  EXPECT_TRUE(has_reason(cluster.decide().status, kFailed, "InvalidConfig"));
}

TEST(HalfGangTest, RendezvousTimeoutOfAWholeGangIsAFailureAsBefore) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.end(0, kRendezvousTimeout);
  const Plan next = cluster.decide();
  EXPECT_EQ(next.status.restarts, 1);
  EXPECT_EQ(next.status.gang_releases, 0);
}

TEST(HalfGangTest, ReleaseKeepsSizesAndTheTimeAfterAFailureCountsAsDown) {
  api::TrainingJob job = training_job(4);
  job.spec.ranks_per_pod = 2;
  ModelCluster cluster = running_cluster(job);
  cluster.end(0, 137);
  cluster.settle();
  cluster.now += seconds(30);
  cluster.settle();
  bind(cluster, 2);
  cluster.now += seconds(300);
  const Plan next = cluster.decide();
  EXPECT_EQ(next.status.gang_releases, 1);
  EXPECT_EQ(next.status.ranks.desired, 4);
  EXPECT_EQ(next.status.ranks.per_pod, 2);
  EXPECT_EQ(next.status.state, "Restarting");
  EXPECT_EQ(next.status.goodput->phase, "Down");
}

TEST(HalfGangTest, SuspensionStartsTheCountAnew) {
  ModelCluster cluster = half_cluster();
  cluster.now += seconds(300);
  cluster.settle();
  cluster.job.spec.suspend = true;
  cluster.change_spec();
  cluster.settle();
  cluster.remove_deleting_pods();
  cluster.settle();
  ASSERT_TRUE(is_true(cluster.job.status, kSuspended));
  EXPECT_EQ(cluster.job.status.gang_releases, 0);
}

TEST(ReleasePauseTest, DoublesUpToItsBoundsAndIsTheSameForTheSameAttempt) {
  const int64_t shortest[] = {15, 30, 60, 120, 240, 300, 300, 300};
  for (int64_t releases = 1; releases <= 8; ++releases) {
    for (int64_t attempt = 0; attempt < 50; ++attempt) {
      const int64_t pause = release_pause("uid", attempt, releases).count();
      EXPECT_GE(pause, shortest[releases - 1]);
      EXPECT_LT(pause, 2 * shortest[releases - 1]);
      EXPECT_EQ(pause, release_pause("uid", attempt, releases).count());
    }
  }
  EXPECT_GE(release_pause("uid", 1, int64_t{1} << 60), seconds(300));
  EXPECT_GE(release_pause("", 0, -5), seconds(15));
}

TEST(ReleasePauseTest, TwoJobsSeldomPauseForTheSameTime) {
  int same = 0;
  constexpr int kPairs = 1000;
  for (int i = 0; i < kPairs; ++i) {
    const std::string uid = std::to_string(i);
    if (release_pause("a" + uid, 1, 3) == release_pause("b" + uid, 1, 3)) ++same;
  }
  EXPECT_LT(same, kPairs / 30);  // 60 possible pauses: 17 are to be expected
}

TEST(CountReleasesTest, ReadsAsASentence) {
  EXPECT_EQ(count_releases(1), "half a gang gave its nodes back once");
  EXPECT_EQ(count_releases(2), "half a gang gave its nodes back twice");
  EXPECT_EQ(count_releases(7), "half a gang gave its nodes back 7 times");
}

}  // namespace
}  // namespace lockstep::plan
