// A job that waits in a queue of Kueue: what its pods carry, when a group is kept, left and ended,
// and what the time in the queue counts as.
#include "operator/plan/queue.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/kueue_names.h"
#include "operator/plan/deadline.h"
#include "operator/plan/plan.h"
#include "operator/plan/render.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr int kPreempted = 85;

api::TrainingJob queued_job(int64_t ranks = 2) {
  api::TrainingJob job = training_job(ranks);
  job.meta.creation_time = kStart;
  job.meta.labels[api::kQueueLabel] = "team";
  return job;
}

// The queue opens the gates of the present attempt.
void admit(ModelCluster& cluster) {
  for (PodView& pod : cluster.seen.pods) {
    if (!pod.deleting) pod.is_gated = false;
  }
}

// The finalizers go with the pods that they held.
void let_go(ModelCluster& cluster) {
  std::erase_if(cluster.seen.pods, [](const PodView& pod) { return pod.deleting; });
}

// A gang that was admitted and runs.
ModelCluster admitted_cluster(api::TrainingJob job = queued_job()) {
  ModelCluster cluster(std::move(job));
  cluster.settle();
  admit(cluster);
  cluster.run_all();
  cluster.settle();
  return cluster;
}

std::vector<std::string> marked_pods(const Plan& next) {
  std::vector<std::string> names;
  for (const Action& action : next.actions) {
    if (const auto* mark = std::get_if<EndPodGroup>(&action)) names.push_back(mark->name);
  }
  return names;
}

std::vector<std::string> created_pods(const Plan& next) {
  std::vector<std::string> names;
  for (const Action& action : next.actions) {
    if (const auto* pod = std::get_if<CreatePod>(&action)) names.push_back(pod->name);
  }
  return names;
}

std::string group_of(const ModelCluster& cluster) {
  return cluster.job.status.queue.value_or(api::QueueStatus{}).pod_group;
}

TEST(QueueTest, PodsNameQueueGroupAndSizeAndWaitBehindTheGate) {
  api::TrainingJob job = queued_job(4);
  job.spec.ranks_per_pod = 2;
  job.meta.labels[api::kPriorityClassLabel] = "high";
  job.spec.pod_template = {{"spec", {{"schedulingGates", {{{"name", "example.com/mine"}}}}}}};
  ModelCluster cluster(job);
  cluster.apply(cluster.decide());
  const Plan next = cluster.decide();
  ASSERT_EQ(created_pods(next), (std::vector<std::string>{"demo-0-0", "demo-0-2"}));
  for (const Action& action : next.actions) {
    const auto* pod = std::get_if<CreatePod>(&action);
    if (pod == nullptr) continue;
    const json& metadata = pod->body["metadata"];
    EXPECT_EQ(metadata["labels"]["kueue.x-k8s.io/queue-name"], "team");
    EXPECT_EQ(metadata["labels"]["kueue.x-k8s.io/pod-group-name"], "demo-job-uid-0");
    EXPECT_EQ(metadata["labels"]["kueue.x-k8s.io/priority-class"], "high");
    EXPECT_EQ(metadata["annotations"]["kueue.x-k8s.io/pod-group-total-count"], "2") << "pods";
    EXPECT_FALSE(metadata.contains("finalizers")) << "Kueue's webhook sets its own";
    EXPECT_EQ(
        pod->body["spec"]["schedulingGates"],
        json::parse(R"([{"name": "example.com/mine"}, {"name": "kueue.x-k8s.io/admission"}])"));
  }
}

TEST(QueueTest, PodsOfAJobInNoQueueCarryNothingOfIt) {
  ModelCluster cluster(training_job(2));
  cluster.apply(cluster.decide());
  EXPECT_FALSE(cluster.job.status.queue.has_value());
  const std::string pod = render_pod(cluster.job, {.ranks = 2}, 0, cluster.settings).dump();
  EXPECT_EQ(pod.find("kueue"), std::string::npos);
}

TEST(QueueTest, JobBehindTheGateSaysThatItIsQueuedAndByWhom) {
  ModelCluster cluster(queued_job());
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Queued");
  EXPECT_TRUE(has_reason(cluster.job.status, kScheduled, kQueuedReason));
  EXPECT_EQ(cluster.job.status.message, "waits in queue team of Kueue");
  cluster.seen.queue_word = "insufficient quota for cpu";
  cluster.settle();
  EXPECT_EQ(cluster.job.status.message, "waits in queue team of Kueue: insufficient quota for cpu");
  EXPECT_EQ(cluster.decide().requeue_after, seconds(30)) << "the reason may change";
  admit(cluster);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Pending");
  EXPECT_TRUE(has_reason(cluster.job.status, kScheduled, "WaitingForNodes"));
}

TEST(QueueTest, PodsThatKueueNeverTookAreToldOnceAndNotTooSoon) {
  ModelCluster cluster(queued_job());
  cluster.settle();
  for (PodView& pod : cluster.seen.pods) {
    pod.is_held = false;  // no webhook saw it
    pod.created_at = cluster.now;
  }
  cluster.now += kQueueSilence - seconds(1);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.message, "waits in queue team of Kueue");
  cluster.now += seconds(1);
  const Plan next = cluster.decide();
  const std::string text =
      "waits in queue team of Kueue: Kueue has not taken its pods: namespace team is not in its "
      "managedJobsNamespaceSelector, or its integration \"pod\" is off";
  EXPECT_EQ(next.status.message, text);
  EXPECT_EQ(find_condition(next.status, kScheduled)->message, text);
  ASSERT_EQ(next.events.size(), 1U);
  EXPECT_TRUE(next.events[0].warning);
  EXPECT_EQ(next.events[0].reason, "QueueSilent");
  cluster.apply(next);
  EXPECT_TRUE(cluster.decide().events.empty()) << "once";
  cluster.seen.queue_word = "Kueue is not installed in this cluster";
  EXPECT_EQ(cluster.decide().status.message,
            "waits in queue team of Kueue: Kueue is not installed in this cluster")
      << "Kueue's own word is better";
}

TEST(QueueTest, AnOldGroupEndsBeforeTheNextOneIsMade) {
  ModelCluster cluster = admitted_cluster();
  cluster.job.spec.pod_template = {{"spec", {{"nodeSelector", {{"a", "b"}}}}}};
  cluster.end(1, 1);
  cluster.pod(0).phase = PodPhase::kFailed;
  const Plan next = cluster.decide();
  ASSERT_EQ(next.status.queue->pod_group, "demo-job-uid-1");
  cluster.apply(next);
  cluster.now += seconds(10);
  const Plan creation = cluster.decide();
  ASSERT_EQ(marked_pods(creation).size(), 1U);
  ASSERT_EQ(created_pods(creation).size(), 2U);
  const auto place = [&creation](auto is_it) {
    return std::find_if(creation.actions.begin(), creation.actions.end(), is_it);
  };
  EXPECT_LT(place([](const Action& a) { return std::holds_alternative<EndPodGroup>(a); }),
            place([](const Action& a) { return std::holds_alternative<CreateConfigMap>(a); }))
      << "the new group may need the quota of the old one";
}

TEST(QueueTest, TimeInTheQueueIsNeitherDowntimeNorActiveNorHeldByHalfAGang) {
  api::TrainingJob job = queued_job();
  job.spec.active_deadline = seconds(100);
  ModelCluster cluster(job);
  cluster.now += seconds(7);  // an operator that was away
  cluster.settle();
  cluster.pod(0).is_gated = false;
  cluster.pod(0).node = "node";
  cluster.pod(0).bound_at = cluster.now;
  cluster.now += seconds(5000);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Queued");
  EXPECT_EQ(cluster.job.status.gang_releases, 0);
  EXPECT_FALSE(active_deadline(cluster.job).has_value());
  admit(cluster);
  cluster.run_all();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.goodput->queued_seconds, 5007);
  EXPECT_EQ(cluster.job.status.goodput->down_seconds, 0);
  EXPECT_EQ(active_deadline(cluster.job), cluster.now + seconds(100));
}

TEST(QueueTest, PreemptionIsAFreeRestartInTheSameGroup) {
  ModelCluster cluster = admitted_cluster();
  const std::string group = group_of(cluster);
  for (PodView& pod : cluster.seen.pods) {
    pod.deleting = true;
    pod.deletion_deadline = cluster.now + seconds(135);
  }
  cluster.end(0, kPreempted);
  cluster.end(1, kPreempted);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_EQ(cluster.job.status.restarts, 0);
  EXPECT_EQ(group_of(cluster), group);
  cluster.now += seconds(5);
  const Plan next = cluster.decide();
  EXPECT_EQ(created_pods(next), (std::vector<std::string>{"demo-1-0", "demo-1-1"}))
      << "the old pods have ended; their finalizers stay until they are replaced";
  EXPECT_TRUE(marked_pods(next).empty());
  cluster.apply(next);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Queued");
  EXPECT_EQ(cluster.job.status.goodput->phase, "Queued") << "not Down";
}

TEST(QueueTest, PodPreemptedBeforeItHadANodeIsReplacedUnderAnotherName) {
  ModelCluster cluster(queued_job());
  cluster.settle();
  admit(cluster);
  cluster.pod(0).node = "node";
  for (PodView& pod : cluster.seen.pods) pod.deleting = true;
  cluster.end(0, kPreempted);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 1) << "the finalizers keep the names of attempt 0";
  EXPECT_EQ(cluster.job.status.restarts, 0);
  cluster.now += seconds(5);
  EXPECT_EQ(created_pods(cluster.decide()), (std::vector<std::string>{"demo-1-0", "demo-1-1"}));
}

TEST(QueueTest, ReplacementsWaitUntilTheOlderPodsOfTheirGroupHaveFailed) {
  ModelCluster cluster = admitted_cluster();
  cluster.end(1, 137);
  cluster.settle();
  cluster.now += seconds(10);
  EXPECT_TRUE(created_pods(cluster.decide()).empty()) << "rank 0 is being killed, and counts";
  for (PodView& pod : cluster.seen.pods) pod.phase = PodPhase::kFailed;
  EXPECT_EQ(created_pods(cluster.decide()).size(), 2U);
}

TEST(QueueTest, PodThatSucceededOrIsLostIsNeverReplacedSoTheAttemptTakesANewGroup) {
  for (const bool is_lost : {false, true}) {
    ModelCluster cluster = admitted_cluster();
    cluster.end(1, 137);
    cluster.settle();
    cluster.now += seconds(100);
    PodView& old = *std::find_if(cluster.seen.pods.begin(), cluster.seen.pods.end(),
                                 [](const PodView& pod) { return pod.name == "demo-0-0"; });
    ASSERT_TRUE(old.deleting);
    if (!is_lost) old.phase = PodPhase::kSucceeded;
    cluster.settle();
    EXPECT_EQ(group_of(cluster), "demo-job-uid-1") << is_lost;
    EXPECT_EQ(cluster.pod(0).pod_group, "demo-job-uid-1");
    EXPECT_EQ(cluster.pod(1).pod_group, "demo-job-uid-1");
    const bool is_marked = std::any_of(
        cluster.seen.pods.begin(), cluster.seen.pods.end(),
        [](const PodView& pod) { return pod.pod_group == "demo-job-uid-0" && pod.ends_group; });
    EXPECT_TRUE(is_marked) << "the old group is over: " << is_lost;
  }
}

TEST(QueueTest, OtherNodesToAvoidOrAnotherTemplateAreAnotherGroup) {
  for (const bool avoids : {false, true}) {
    ModelCluster cluster = admitted_cluster();
    if (avoids) cluster.job.status.node_failures = {{.name = "node-1", .count = 1}};
    if (!avoids) cluster.job.spec.pod_template = {{"spec", {{"nodeSelector", {{"a", "b"}}}}}};
    cluster.end(1, 1);  // on node-1, the second time
    cluster.settle();
    EXPECT_EQ(group_of(cluster), "demo-job-uid-1") << avoids;
  }
}

TEST(QueueTest, SuspensionEndsTheGroupAndAResumedJobTakesAnother) {
  ModelCluster cluster = admitted_cluster();
  cluster.job.spec.suspend = true;
  cluster.change_spec();
  EXPECT_TRUE(marked_pods(cluster.decide()).empty()) << "the wish is not written yet";
  cluster.settle();
  EXPECT_TRUE(cluster.pod(0).ends_group != cluster.pod(1).ends_group) << "one of them is enough";
  cluster.end(0, kPreempted);
  cluster.end(1, kPreempted);
  cluster.settle();
  ASSERT_TRUE(is_true(cluster.job.status, kSuspended));
  let_go(cluster);
  cluster.job.spec.suspend = false;
  cluster.change_spec();
  cluster.settle();
  EXPECT_EQ(group_of(cluster), "demo-job-uid-1");
  EXPECT_EQ(cluster.job.status.state, "Queued");
}

TEST(QueueTest, AGroupThatIsOverIsNotGoneOnWith) {
  ModelCluster cluster = admitted_cluster();
  cluster.pod(0).ends_group = true;  // by a plan whose status was never written
  cluster.end(0, kPreempted);
  cluster.end(1, kPreempted);
  cluster.settle();
  EXPECT_EQ(group_of(cluster), "demo-job-uid-1");
}

TEST(QueueTest, AJobThatIsSuspendedWhileItWaitsNeedsNoKubeletToStop) {
  ModelCluster cluster(queued_job());
  cluster.settle();
  cluster.job.spec.suspend = true;
  cluster.change_spec();
  cluster.settle();  // the pods stay, held by finalizers, but never ran
  EXPECT_TRUE(is_true(cluster.job.status, kSuspended));
  EXPECT_EQ(cluster.seen.pods.size(), 2U);
}

TEST(QueueTest, AnotherSizeIsAnotherGroup) {
  ModelCluster cluster = admitted_cluster();
  cluster.job.spec.ranks = 4;
  cluster.change_spec();
  cluster.settle();
  cluster.end(0, kPreempted);
  cluster.end(1, kPreempted);
  cluster.settle();
  EXPECT_EQ(group_of(cluster), "demo-job-uid-1");
  EXPECT_EQ(cluster.job.status.ranks.desired, 4);
}

TEST(QueueTest, JobThatFailedForGoodEndsItsGroupAndOneThatSucceededNeedNot) {
  ModelCluster failed = admitted_cluster();
  failed.end(0, 78);
  failed.settle();
  ASSERT_TRUE(is_true(failed.job.status, kFailed));
  EXPECT_TRUE(failed.pod(0).ends_group || failed.pod(1).ends_group);
  ModelCluster succeeded = admitted_cluster();
  succeeded.end(0, 0);
  succeeded.end(1, 0);
  succeeded.settle();
  ASSERT_TRUE(is_true(succeeded.job.status, kSucceeded));
  EXPECT_FALSE(succeeded.pod(0).ends_group || succeeded.pod(1).ends_group);
}

TEST(QueueTest, WhatAJobThatIsGoneHasLeftIsMarkedOnce) {
  ModelCluster cluster = admitted_cluster();
  EXPECT_TRUE(end_orphaned_groups(cluster.seen).empty()) << "the job may only not be seen yet";
  for (PodView& pod : cluster.seen.pods) pod.deleting = true;
  const std::vector<Action> marks = end_orphaned_groups(cluster.seen);
  ASSERT_EQ(marks.size(), 1U);
  EXPECT_EQ(std::get<EndPodGroup>(marks[0]).name, "demo-0-0");
  cluster.pod(1).ends_group = true;
  EXPECT_TRUE(end_orphaned_groups(cluster.seen).empty());
  cluster.pod(1).ends_group = false;
  for (PodView& pod : cluster.seen.pods) pod.is_held = false;
  EXPECT_TRUE(end_orphaned_groups(cluster.seen).empty()) << "nobody holds them";
}

TEST(QueueTest, PodsOfAnOlderJobOfThatNameAreMarkedToo) {
  ModelCluster cluster = admitted_cluster();
  cluster.job.meta.uid = "another-uid";
  cluster.job.status = {};
  for (PodView& pod : cluster.seen.pods) pod.deleting = true;  // by the garbage collector
  cluster.settle();
  EXPECT_TRUE(cluster.pod(0).ends_group != cluster.pod(1).ends_group);
}

TEST(QueueTest, AWaitingJobFollowsItsLabelAtOnceAndARunningOneWithItsNextAttempt) {
  ModelCluster waiting(queued_job());
  waiting.settle();
  waiting.job.meta.labels[api::kQueueLabel] = "other";
  waiting.settle();
  EXPECT_EQ(waiting.job.status.attempt, 1);
  EXPECT_EQ(waiting.job.status.restarts, 0);
  EXPECT_EQ(waiting.job.status.queue, (api::QueueStatus{"other", "demo-job-uid-1"}));

  ModelCluster running = admitted_cluster();
  running.job.meta.labels.erase(api::kQueueLabel);
  running.settle();
  EXPECT_EQ(running.job.status.attempt, 0);
  running.end(0, 137);
  running.settle();
  EXPECT_FALSE(running.job.status.queue.has_value());
}

TEST(QueueTest, HalfAGangThatGivesItsNodesBackGivesItsQuotaBackToo) {
  ModelCluster cluster(queued_job());
  cluster.settle();
  admit(cluster);
  cluster.pod(0).node = "node";
  cluster.pod(0).bound_at = cluster.now;
  cluster.now += seconds(300);
  const Plan next = cluster.decide();
  EXPECT_EQ(next.status.gang_releases, 1);
  EXPECT_EQ(next.status.queue->pod_group, "demo-job-uid-1");
  cluster.apply(next);
  EXPECT_EQ(marked_pods(cluster.decide()), std::vector<std::string>{"demo-0-0"});
}

}  // namespace
}  // namespace lockstep::plan
