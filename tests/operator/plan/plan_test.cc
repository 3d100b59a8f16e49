// How a job begins, runs, stops and ends. Losses of ranks: plan_failure_test.cc.
#include "operator/plan/plan.h"

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

// The actions as text: "+pod demo-0-1", "-pod demo-0-1 grace 135", "+service demo", ...
std::vector<std::string> told(const Plan& plan) {
  struct Teller {
    std::string operator()(const CreateConfigMap& a) const { return "+configmap " + a.name; }
    std::string operator()(const CreateService& a) const { return "+service " + a.name; }
    std::string operator()(const CreatePodGroup& a) const { return "+group " + a.name; }
    std::string operator()(const DeletePodGroup& a) const { return "-group " + a.name; }
    std::string operator()(const CreatePod& a) const { return "+pod " + a.name; }
    std::string operator()(const DeletePod& a) const {
      return "-pod " + a.name + " grace " + std::to_string(a.grace_seconds);
    }
    std::string operator()(const EndPodGroup& a) const { return "end group of " + a.name; }
    std::string operator()(const DeleteConfigMap& a) const { return "-configmap " + a.name; }
    std::string operator()(const DeleteJob& a) const { return "-job " + a.uid; }
  };
  std::vector<std::string> texts;
  for (const Action& action : plan.actions) texts.push_back(std::visit(Teller{}, action));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(PlanTest, FirstPlanRecordsTheAttemptAndTouchesNothing) {
  const ModelCluster cluster(training_job(2));
  const Plan first = cluster.decide();
  EXPECT_TRUE(first.actions.empty());
  EXPECT_EQ(first.status.attempt, 0);
  EXPECT_EQ(first.status.ranks.desired, 2);
  EXPECT_EQ(first.status.start_time, kStart);
  EXPECT_EQ(first.status.observed_generation, 1);
  EXPECT_TRUE(is_true(first.status, kAccepted));
  EXPECT_EQ(first.status.state, "Pending");
  EXPECT_TRUE(first.requeue_after.has_value());
}

TEST(PlanTest, SecondPlanCreatesConfigMapServiceAndOnePodPerRank) {
  ModelCluster cluster(training_job(2));
  cluster.apply(cluster.decide());
  EXPECT_EQ(told(cluster.decide()),
            (Texts{"+configmap demo-0", "+service demo", "+pod demo-0-0", "+pod demo-0-1"}));
}

TEST(PlanTest, CrashInTheMiddleOfCreationIsCompletedByTheNextPlan) {
  for (const bool first_runs : {false, true}) {
    ModelCluster cluster(training_job(2));
    cluster.apply(cluster.decide());
    cluster.apply(cluster.decide(), 3);
    if (first_runs) {
      cluster.pod(0).phase = PodPhase::kRunning;
      cluster.pod(0).node = "n1";
    }
    EXPECT_EQ(told(cluster.decide()), Texts{"+pod demo-0-1"});
    EXPECT_EQ(cluster.decide().status.attempt, 0);
  }
}

TEST(PlanTest, RunningGangIsReportedAndPolled) {
  ModelCluster cluster(training_job(2));
  cluster.settle();
  cluster.pod(0).node = "n1";
  cluster.pod(0).phase = PodPhase::kRunning;
  cluster.pod(1).waiting_reason = "ImagePullBackOff";
  Plan next = cluster.decide();
  EXPECT_EQ(next.status.state, "Starting");
  EXPECT_EQ(next.status.message, "1/2 ranks running; rank 1: ImagePullBackOff");
  EXPECT_FALSE(is_true(next.status, kScheduled));
  cluster.run_all();
  next = cluster.decide();
  EXPECT_EQ(next.status.state, "Running");
  EXPECT_EQ(next.status.message, "");
  EXPECT_EQ(next.status.ranks, (api::RankCounts{.desired = 2, .running = 2}));
  EXPECT_TRUE(is_true(next.status, kScheduled));
  EXPECT_TRUE(is_true(next.status, kRunning));
  EXPECT_EQ(next.requeue_after, seconds(2));  // rank 0 never answered yet
  cluster.seen.progress = api::ProgressStatus{.step = 3, .last_update_time = kStart};
  EXPECT_EQ(cluster.decide().requeue_after, seconds(15));
  EXPECT_EQ(cluster.decide().status.progress->step, 3);
}

TEST(PlanTest, RankThatSucceededWhileOthersRunIsFine) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.end(1, 0);
  const Plan next = cluster.decide();
  EXPECT_TRUE(next.actions.empty());
  EXPECT_EQ(next.status.state, "Running");
  EXPECT_EQ(next.status.ranks, (api::RankCounts{.desired = 2, .running = 1, .succeeded = 1}));
}

TEST(PlanTest, AllRanksSucceededFinishesTheJobForGood) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.seen.progress =
      api::ProgressStatus{.step = 90, .total_steps = 100, .last_update_time = kStart};
  cluster.settle();
  cluster.now += seconds(60);
  cluster.end(0, 0);
  cluster.end(1, 0);
  cluster.settle();
  const api::TrainingJobStatus finished = cluster.job.status;
  EXPECT_TRUE(is_true(finished, kSucceeded));
  EXPECT_FALSE(is_true(finished, kRunning));
  EXPECT_EQ(finished.state, "Succeeded");
  EXPECT_EQ(finished.completion_time, cluster.now);
  EXPECT_EQ(finished.ranks.succeeded, 2);
  EXPECT_EQ(finished.progress->step, 100);
  cluster.seen = {};
  cluster.job.spec.ranks = 4;
  cluster.job.spec.suspend = true;
  cluster.change_spec();
  EXPECT_TRUE(cluster.decide().actions.empty());
  EXPECT_EQ(cluster.decide().status, finished);
}

TEST(PlanTest, CleanPodPolicyDecidesWhatStaysOfAFinishedGang) {
  const struct {
    api::CleanPodPolicy policy;
    Texts expected;
  } table[] = {
      {api::CleanPodPolicy::kRunning, {"-pod demo-0-1 grace 1"}},
      {api::CleanPodPolicy::kAll, {"-pod demo-0-0 grace 1", "-pod demo-0-1 grace 1"}},
      {api::CleanPodPolicy::kNone, {}},
  };
  for (const auto& row : table) {
    api::TrainingJob job = training_job(2);
    job.spec.clean_pod_policy = row.policy;
    ModelCluster cluster = running_cluster(job);
    cluster.end(0, 78);  // InvalidConfig
    cluster.apply(cluster.decide());
    ASSERT_TRUE(is_true(cluster.job.status, kFailed));
    EXPECT_EQ(told(cluster.decide()), row.expected);
  }
}

TEST(PlanTest, DeletedJobIsLeftToItsOwnerReferences) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.job.meta.deletion_time = kStart;
  cluster.remove_pod("demo-0-1");
  EXPECT_TRUE(cluster.decide().actions.empty());
  EXPECT_EQ(cluster.decide().status, cluster.job.status);
  EXPECT_FALSE(cluster.decide().requeue_after.has_value());
}

TEST(PlanTest, InvalidSpecIsRefusedWithItsFieldPathAndWithoutPods) {
  api::TrainingJob job = training_job(2);
  job.spec.train["batch"]["globalBatchSize"] = 7;
  ModelCluster cluster(job);
  EXPECT_EQ(cluster.settle(), 1);
  const api::Condition* accepted = find_condition(cluster.job.status, kAccepted);
  ASSERT_NE(accepted, nullptr);
  EXPECT_EQ(accepted->status, api::ConditionStatus::kFalse);
  EXPECT_EQ(accepted->reason, "InvalidSpec");
  EXPECT_NE(accepted->message.find("spec.train.batch.globalBatchSize"), std::string::npos)
      << accepted->message;
  EXPECT_EQ(cluster.job.status.state, "Invalid");
  EXPECT_TRUE(cluster.seen.pods.empty());
  cluster.job.spec.train["batch"]["globalBatchSize"] = 8;
  cluster.change_spec();
  cluster.settle();
  EXPECT_EQ(cluster.seen.pods.size(), 2u);
}

TEST(PlanTest, NamesThatCannotBeHostNamesAreRefused) {
  for (const std::string& name :
       {std::string("Demo"), std::string("1demo"), std::string("demo-"), std::string(46, 'a')}) {
    api::TrainingJob job = training_job(1);
    job.meta.name = name;
    ModelCluster cluster(job);
    cluster.settle();
    EXPECT_FALSE(is_true(cluster.job.status, kAccepted)) << name;
    EXPECT_TRUE(cluster.seen.pods.empty());
  }
}

TEST(PlanTest, SuspendedJobStopsInGoodOrderAndResumesWithANewAttemptFreeOfCharge) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.job.spec.suspend = true;
  cluster.change_spec();
  EXPECT_EQ(told(cluster.decide()), (Texts{"-pod demo-0-0 grace 135", "-pod demo-0-1 grace 135"}));
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Suspending");
  EXPECT_FALSE(is_true(cluster.job.status, kSuspended));
  cluster.end(0, 85);  // Preempted: the checkpoint is saved
  cluster.end(1, 85);
  cluster.settle();
  EXPECT_TRUE(is_true(cluster.job.status, kSuspended));
  EXPECT_EQ(cluster.job.status.state, "Suspended");
  cluster.remove_deleting_pods();
  EXPECT_EQ(cluster.settle(), 0);

  cluster.job.spec.suspend = false;
  cluster.change_spec();
  const Plan resumed = cluster.decide();
  EXPECT_TRUE(resumed.actions.empty());
  EXPECT_EQ(resumed.status.attempt, 1);
  EXPECT_EQ(resumed.status.restarts, 0);
  EXPECT_FALSE(is_true(resumed.status, kSuspended));
  cluster.settle();
  cluster.run_all();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Running");
  EXPECT_FALSE(cluster.job.status.first_failure.has_value());
}

TEST(PlanTest, SuspensionThatIsWithdrawnIsFinishedBeforeTheNextAttempt) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.job.spec.suspend = true;
  cluster.change_spec();
  cluster.settle();
  cluster.job.spec.suspend = false;
  cluster.change_spec();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 0);  // the ranks are saving
  cluster.remove_deleting_pods();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_EQ(cluster.job.status.restarts, 0);
  EXPECT_FALSE(is_true(cluster.job.status, kSuspended));
  EXPECT_EQ(cluster.seen.pods.size(), 2u);
}

TEST(PlanTest, JobThatIsBornSuspendedHasNoPodsAndBeginsWithAttemptZero) {
  api::TrainingJob job = training_job(2);
  job.spec.suspend = true;
  ModelCluster cluster(job);
  cluster.settle();
  EXPECT_TRUE(is_true(cluster.job.status, kSuspended));
  EXPECT_TRUE(cluster.seen.pods.empty());
  cluster.job.spec.suspend = false;
  cluster.change_spec();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 0);
  EXPECT_EQ(cluster.seen.pods.size(), 2u);
}

TEST(PlanTest, OwnProgramThatExitsZeroWhenToldToStopHasNotSucceeded) {
  ModelCluster cluster = running_cluster(command_job(1));
  cluster.job.spec.suspend = true;
  cluster.change_spec();
  cluster.settle();
  cluster.end(0, 0);
  cluster.settle();
  EXPECT_FALSE(is_true(cluster.job.status, kSucceeded));
  EXPECT_TRUE(is_true(cluster.job.status, kSuspended));
}

TEST(PlanTest, ScalingSavesACheckpointAndStartsAnAttemptOfTheNewSize) {
  ModelCluster cluster = running_cluster(training_job(4));
  cluster.job.spec.ranks = 2;
  cluster.change_spec();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 0);
  for (const PodView& pod : cluster.seen.pods) {
    EXPECT_TRUE(pod.deleting);
    EXPECT_EQ(pod.deletion_deadline, cluster.now + seconds(135));
  }
  cluster.remove_deleting_pods();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_EQ(cluster.job.status.restarts, 0);
  EXPECT_EQ(cluster.job.status.ranks.desired, 2);
  ASSERT_EQ(cluster.seen.pods.size(), 2u);
  EXPECT_EQ(cluster.seen.pods[1].name, "demo-1-1");
  ASSERT_EQ(cluster.seen.config_maps.size(), 1u);
  EXPECT_EQ(cluster.seen.config_maps[0].name, "demo-1");
}

TEST(PlanTest, SizeThatTheBatchForbidsIsRefusedAndTheGangRunsOn) {
  ModelCluster cluster = running_cluster(training_job(4));
  cluster.job.spec.ranks = 3;
  cluster.change_spec();
  cluster.settle();
  EXPECT_FALSE(is_true(cluster.job.status, kAccepted));
  EXPECT_EQ(cluster.job.status.state, "Running");
  EXPECT_EQ(cluster.job.status.ranks.running, 4);
  cluster.end(2, 70);
  cluster.settle();
  cluster.now += seconds(60);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_EQ(cluster.job.status.ranks.desired, 4);
  EXPECT_NO_THROW(cluster.pod(3));
}

TEST(PlanTest, SpecChangedBetweenRecordAndCreationCannotMixTwoSizes) {
  ModelCluster cluster(training_job(4));
  cluster.apply(cluster.decide());
  cluster.apply(cluster.decide(), 4);  // dies after two of four pods
  cluster.job.spec.ranks = 2;
  cluster.change_spec();
  cluster.settle();
  cluster.remove_deleting_pods();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_EQ(cluster.seen.pods.size(), 2u);
}

TEST(PlanTest, TakenNameIsWaitedFor) {
  for (const char* kind : {"pod", "service", "config map"}) {
    ModelCluster cluster(training_job(2));
    cluster.apply(cluster.decide());
    const ChildView child = {.name = kind == std::string("service") ? "demo" : "demo-0",
                             .uid = "x",
                             .owner_uid = "somebody"};
    if (kind == std::string("pod")) cluster.add_pod(0, 1, "somebody");
    if (kind == std::string("service")) cluster.seen.services.push_back(child);
    if (kind == std::string("config map")) cluster.seen.config_maps.push_back(child);
    const Plan next = cluster.decide();
    EXPECT_TRUE(next.actions.empty()) << kind;
    EXPECT_TRUE(has_reason(next.status, kScheduled, "NameTaken")) << kind;
    EXPECT_EQ(next.requeue_after, seconds(30));
    ASSERT_EQ(next.events.size(), 1u);
    EXPECT_EQ(next.events[0].reason, "NameTaken");
    cluster.apply(next);
    EXPECT_TRUE(cluster.decide().events.empty());
    cluster.seen = {};
    cluster.settle();
    EXPECT_EQ(cluster.seen.pods.size(), 2u) << kind;
  }
}

TEST(PlanTest, ServiceInDeletionIsRecreatedOnceItIsGone) {
  ModelCluster cluster(training_job(1));
  cluster.apply(cluster.decide());
  cluster.seen.services.push_back(
      {.name = "demo", .uid = "s", .owner_uid = "job-uid", .deleting = true});
  EXPECT_TRUE(cluster.decide().actions.empty());
  EXPECT_EQ(cluster.decide().requeue_after, seconds(5));
  cluster.seen.services.clear();
  cluster.settle();
  EXPECT_EQ(cluster.seen.services.size(), 1u);
}

TEST(PlanTest, PodsAreKnownByNameAndOwnerWhateverTheirLabelsSay) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.pod(0).rank = 1;
  cluster.pod(1).attempt = -1;
  EXPECT_TRUE(cluster.decide().actions.empty());
  EXPECT_EQ(cluster.decide().status, cluster.job.status);
}

TEST(PlanTest, AttemptNeverFallsBehindItsPods) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.add_pod(5, 0, "job-uid");
  const Plan next = cluster.decide();
  EXPECT_TRUE(next.actions.empty());
  EXPECT_EQ(next.status.attempt, 5);
}

TEST(PlanTest, EventsAreToldOnceAtEachTransition) {
  ModelCluster cluster(training_job(1));
  cluster.settle();
  cluster.run_all();
  const Plan next = cluster.decide();
  ASSERT_EQ(next.events.size(), 1u);
  EXPECT_EQ(next.events[0].reason, "Running");
  cluster.apply(next);
  EXPECT_TRUE(cluster.decide().events.empty());
}

}  // namespace
}  // namespace lockstep::plan
