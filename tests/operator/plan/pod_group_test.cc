// A job whose pods get nodes through a scheduler that knows gangs: which one it is, what group and
// pods say, and when a group is kept, changed and ended.
#include "operator/plan/pod_group.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/plan.h"
#include "operator/plan/render.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using api::GangScheduler;
using nlohmann::json;
using std::chrono::seconds;
using Kind = GangChoice::Kind;

constexpr int kInternal = 70;

json scheduled_by(const std::string& name) {
  return {{"spec", {{"schedulerName", name}}}};
}

api::TrainingJob gang_job(GangScheduler scheduler, int64_t ranks = 2) {
  api::TrainingJob job = training_job(ranks);
  job.meta.creation_time = kStart;
  job.spec.scheduling.gang_scheduler = scheduler;
  return job;
}

ModelCluster gang_cluster(api::TrainingJob job) {
  ModelCluster cluster(std::move(job));
  cluster.seen.gang_apis = all_gang_apis();
  return cluster;
}

std::vector<std::string> created(const Plan& next) {
  std::vector<std::string> names;
  for (const Action& action : next.actions) {
    if (const auto* pod = std::get_if<CreatePod>(&action)) names.push_back("pod " + pod->name);
    if (const auto* group = std::get_if<CreatePodGroup>(&action)) {
      names.push_back("group " + group->name);
    }
  }
  return names;
}

using Names = std::vector<std::string>;

Names groups_of(const ModelCluster& cluster) {
  Names names;
  for (const auto& [name, body] : cluster.pod_groups) names.push_back(name);
  return names;
}

void suspend(ModelCluster& cluster, bool suspends) {
  cluster.job.spec.suspend = suspends;
  cluster.change_spec();
  cluster.settle();
  cluster.remove_deleting_pods();
  cluster.settle();
}

struct Choice {
  const char* what;
  GangScheduler asked;
  json pod_template;
  GangApis apis;
  Kind kind;
  GangScheduler scheduler = GangScheduler::kNone;
};

TEST(PodGroupTest, SchedulerFollowsFromTheSpecTheTemplateAndWhatIsServed) {
  const json none = json::object();
  const json own = {{"metadata", {{"labels", {{"scheduling.x-k8s.io/pod-group", "mine"}}}}}};
  const json own_native = {{"spec", {{"schedulingGroup", {{"podGroupName", "mine"}}}}}};
  const GangApis nothing, all = all_gang_apis();
  const GangApis unknown = {.is_known = false};
  const GangScheduler is_auto = GangScheduler::kAuto;
  const Choice choices[] = {
      {"auto, nothing served", is_auto, none, nothing, Kind::kNone},
      {"auto, Volcano's pods, nothing served", is_auto, scheduled_by("volcano"), nothing,
       Kind::kNone},
      {"auto, default scheduler", is_auto, none, all, Kind::kGroup, GangScheduler::kNative},
      {"auto, default scheduler by name", is_auto, scheduled_by("default-scheduler"), all,
       Kind::kGroup, GangScheduler::kNative},
      {"auto, Volcano's pods", is_auto, scheduled_by("volcano"), all, Kind::kGroup,
       GangScheduler::kVolcano},
      {"auto, another scheduler's pods", is_auto, scheduled_by("gangs"), all, Kind::kGroup,
       GangScheduler::kCoscheduling},
      {"auto, default scheduler, only foreign groups",
       is_auto,
       none,
       {.coscheduling = true, .volcano = true},
       Kind::kNone},
      {"auto, a group of the user's own", is_auto, own, all, Kind::kNone},
      {"auto, a native group of the user's own", is_auto, own_native, unknown, Kind::kNone},
      {"auto, not known", is_auto, none, unknown, Kind::kUnknown},
      {"none", GangScheduler::kNone, scheduled_by("volcano"), all, Kind::kNone},
      {"none, not known", GangScheduler::kNone, none, unknown, Kind::kNone},
      {"coscheduling by name", GangScheduler::kCoscheduling, none, all, Kind::kGroup,
       GangScheduler::kCoscheduling},
      {"volcano by name", GangScheduler::kVolcano, none, all, Kind::kGroup,
       GangScheduler::kVolcano},
      {"native by name", GangScheduler::kNative, scheduled_by("mine"), all, Kind::kGroup,
       GangScheduler::kNative},
      {"volcano by name, not served", GangScheduler::kVolcano, none, nothing, Kind::kMissing},
      {"volcano by name, not known", GangScheduler::kVolcano, none, unknown, Kind::kUnknown},
  };
  for (const Choice& choice : choices) {
    const GangChoice chosen = choose_gang(gang_job(choice.asked), choice.pod_template, choice.apis);
    EXPECT_EQ(chosen.kind, choice.kind) << choice.what;
    EXPECT_EQ(chosen.scheduler, choice.scheduler) << choice.what;
  }
}

TEST(PodGroupTest, MissingSchedulerSaysWhatIsServedInstead) {
  GangApis apis;
  apis.ignored = {"scheduling.k8s.io/v1beta1"};
  apis.trouble = "cannot get path";
  const json none = json::object();
  EXPECT_EQ(choose_gang(gang_job(GangScheduler::kNative), none, apis).missing,
            "spec.scheduling.gangScheduler is native, but the API server serves no PodGroup of "
            "scheduling.k8s.io/v1alpha2; scheduling.k8s.io/v1beta1 is ignored; it says: cannot "
            "get path");
  EXPECT_EQ(choose_gang(gang_job(GangScheduler::kVolcano), none, {}).missing,
            "spec.scheduling.gangScheduler is volcano, but the API server serves no PodGroup of "
            "scheduling.volcano.sh/v1beta1");
}

api::TrainingJob rich_job(GangScheduler scheduler) {
  api::TrainingJob job = gang_job(scheduler, 8);
  job.spec.ranks_per_pod = 2;
  job.spec.resources = {{"limits", {{"nvidia.com/gpu", 1}, {"cpu", "1500m"}}},
                        {"requests", {{"cpu", "1"}}}};
  job.meta.labels["scheduling.volcano.sh/queue-name"] = "team";
  job.spec.pod_template = json::parse(R"({"spec": {"priorityClassName": "high", "containers": [
      {"name": "logs", "image": "example.test/logs", "resources": {"requests": {"cpu": "250m"}}}]}})");
  return job;
}

struct Rendered {
  json group;
  json pod;
};

Rendered render(GangScheduler scheduler) {
  ModelCluster cluster = gang_cluster(rich_job(scheduler));
  cluster.apply(cluster.decide());
  const Plan next = cluster.decide();
  Rendered rendered;
  for (const Action& action : next.actions) {
    if (const auto* group = std::get_if<CreatePodGroup>(&action)) rendered.group = group->body;
    if (const auto* pod = std::get_if<CreatePod>(&action)) rendered.pod = pod->body;
  }
  return rendered;
}

TEST(PodGroupTest, GroupOfCoschedulingCountsPodsAndWhatTheyAskFor) {
  const Rendered rendered = render(GangScheduler::kCoscheduling);
  EXPECT_EQ(rendered.group["apiVersion"], "scheduling.x-k8s.io/v1alpha1");
  EXPECT_EQ(rendered.group["kind"], "PodGroup");
  EXPECT_EQ(rendered.group["metadata"]["namespace"], "team");
  EXPECT_EQ(rendered.group["metadata"]["ownerReferences"][0]["uid"], "job-uid");
  EXPECT_EQ(rendered.group["metadata"]["labels"]["lockstep.dev/job-name"], "demo");
  EXPECT_EQ(rendered.group["spec"],
            json::parse(R"({"minMember": 4, "minResources": {"cpu": "9", "nvidia.com/gpu": "8"}})"))
      << "4 pods of 2 ranks of 1 CPU and 250m beside them";
  EXPECT_EQ(rendered.pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "demo-job-uid-0");
  EXPECT_FALSE(rendered.pod["spec"].contains("schedulerName")) << "the template's matter";
}

TEST(PodGroupTest, GroupOfVolcanoHasQueueAndPriorityToo) {
  const Rendered rendered = render(GangScheduler::kVolcano);
  EXPECT_EQ(rendered.group["apiVersion"], "scheduling.volcano.sh/v1beta1");
  EXPECT_EQ(rendered.group["spec"],
            json::parse(R"({"minMember": 4, "queue": "team", "priorityClassName": "high",
                            "minResources": {"cpu": "9", "nvidia.com/gpu": "8"}})"));
  EXPECT_EQ(rendered.pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"],
            "demo-job-uid-0");
  EXPECT_EQ(rendered.pod["spec"]["schedulerName"], "volcano");
}

TEST(PodGroupTest, SchedulerNameOfTheTemplateStays) {
  api::TrainingJob job = gang_job(GangScheduler::kVolcano);
  job.spec.pod_template = scheduled_by("volcano-batch");
  const AttemptSpec attempt = {
      .ranks = 2,
      .gang = api::GangStatus{.scheduler = "volcano", .pod_group = "g", .pods = 2},
      .pod_template = job.spec.pod_template};
  EXPECT_EQ(render_pod(job, attempt, 0, {})["spec"]["schedulerName"], "volcano-batch");
}

TEST(PodGroupTest, NativeGroupIsAGangOfAllPods) {
  const Rendered rendered = render(GangScheduler::kNative);
  EXPECT_EQ(rendered.group["apiVersion"], "scheduling.k8s.io/v1alpha2");
  EXPECT_EQ(rendered.group["spec"],
            json::parse(R"({"schedulingPolicy": {"gang": {"minCount": 4}}})"));
  EXPECT_EQ(rendered.pod["spec"]["schedulingGroup"], json({{"podGroupName", "demo-job-uid-0"}}));
}

TEST(PodGroupTest, PodsOfAJobWithoutAGangCarryNothingOfIt) {
  ModelCluster cluster(gang_job(GangScheduler::kAuto));
  cluster.apply(cluster.decide());
  EXPECT_FALSE(cluster.job.status.gang.has_value());
  const std::string pod = render_pod(cluster.job, {.ranks = 2}, 0, cluster.settings).dump();
  for (const char* word : {"scheduling.", "schedulingGroup", "schedulerName"}) {
    EXPECT_EQ(pod.find(word), std::string::npos) << word;
  }
  cluster.settle();
  EXPECT_TRUE(cluster.pod_groups.empty());
}

TEST(PodGroupTest, GroupIsRecordedThenMadeThenItsPods) {
  ModelCluster cluster = gang_cluster(gang_job(GangScheduler::kVolcano));
  const Plan first = cluster.decide();
  EXPECT_TRUE(first.actions.empty());
  EXPECT_EQ(first.status.gang,
            (api::GangStatus{.scheduler = "volcano", .pod_group = "demo-job-uid-0", .pods = 2}));
  cluster.apply(first);
  EXPECT_EQ(created(cluster.decide()),
            (Names{"group demo-job-uid-0", "pod demo-0-0", "pod demo-0-1"}));
  cluster.settle();
  EXPECT_EQ(created(cluster.decide()), Names{});
}

TEST(PodGroupTest, JobSaysWhomItWaitsForAndWhy) {
  ModelCluster cluster = gang_cluster(gang_job(GangScheduler::kVolcano));
  cluster.settle();
  EXPECT_TRUE(has_reason(cluster.job.status, kScheduled, kGangWaits));
  EXPECT_EQ(cluster.job.status.message,
            "0/2 ranks running; waits for volcano to give nodes to all 2 pods of PodGroup "
            "demo-job-uid-0 at once");
  cluster.seen.gang_word = "Pending: 2/2 tasks unschedulable";
  cluster.settle();
  EXPECT_EQ(find_condition(cluster.job.status, kScheduled)->message,
            "waits for volcano to give nodes to all 2 pods of PodGroup demo-job-uid-0 at once: "
            "Pending: 2/2 tasks unschedulable");
  EXPECT_EQ(cluster.decide().requeue_after, seconds(30)) << "the reason may change";
  cluster.run_all();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.state, "Running");
  EXPECT_TRUE(has_reason(cluster.job.status, kScheduled, "AllRanksScheduled"));
}

TEST(PodGroupTest, MissingSchedulerIsToldOnceAndNoPodIsMade) {
  ModelCluster cluster(gang_job(GangScheduler::kCoscheduling));
  cluster.apply(cluster.decide());
  const Plan next = cluster.decide();
  EXPECT_TRUE(next.actions.empty());
  EXPECT_TRUE(has_reason(next.status, kScheduled, kGangSchedulerMissing));
  EXPECT_EQ(next.status.message, find_condition(next.status, kScheduled)->message);
  ASSERT_EQ(next.events.size(), 1U);
  EXPECT_TRUE(next.events[0].warning);
  EXPECT_EQ(next.events[0].reason, "GangSchedulerMissing");
  EXPECT_EQ(next.requeue_after, seconds(30));
  cluster.apply(next);
  EXPECT_TRUE(cluster.decide().events.empty()) << "once";
  cluster.seen.gang_apis = all_gang_apis();
  cluster.settle();
  EXPECT_EQ(groups_of(cluster), Names{"demo-job-uid-0"}) << "it was installed";
  EXPECT_EQ(cluster.seen.pods.size(), 2U);
}

TEST(PodGroupTest, NothingIsMadeUntilDiscoveryHasAnswered) {
  ModelCluster cluster(gang_job(GangScheduler::kAuto));
  cluster.seen.gang_apis.is_known = false;
  cluster.settle();
  EXPECT_TRUE(cluster.seen.pods.empty());
  EXPECT_EQ(cluster.decide().requeue_after, kNextRound);
  EXPECT_TRUE(has_reason(cluster.job.status, kScheduled, "WaitingForNodes"));
  cluster.seen.gang_apis.is_known = true;
  cluster.settle();
  EXPECT_EQ(cluster.seen.pods.size(), 2U);
}

TEST(PodGroupTest, RestartKeepsTheGroup) {
  for (const GangScheduler scheduler : {GangScheduler::kVolcano, GangScheduler::kNative}) {
    ModelCluster cluster = gang_cluster(gang_job(scheduler));
    cluster.settle();
    cluster.run_all();
    cluster.settle();
    cluster.end(0, kInternal);
    cluster.settle();
    cluster.now += seconds(60);
    cluster.remove_deleting_pods();
    cluster.settle();
    EXPECT_EQ(cluster.job.status.attempt, 1);
    EXPECT_EQ(groups_of(cluster), Names{"demo-job-uid-0"});
    EXPECT_EQ(cluster.job.status.gang->pod_group, "demo-job-uid-0");
    EXPECT_EQ(cluster.pod(1).attempt, 1);
  }
}

TEST(PodGroupTest, SuspensionEndsTheGroupAndAResumedJobHasANewOne) {
  ModelCluster cluster = gang_cluster(gang_job(GangScheduler::kCoscheduling));
  cluster.settle();
  cluster.run_all();
  cluster.settle();
  suspend(cluster, true);
  ASSERT_EQ(cluster.job.status.state, "Suspended");
  EXPECT_FALSE(cluster.job.status.gang.has_value());
  EXPECT_EQ(groups_of(cluster), Names{});
  suspend(cluster, false);
  EXPECT_EQ(groups_of(cluster), Names{"demo-job-uid-1"});
  EXPECT_EQ(cluster.seen.pods.size(), 2U);
}

ModelCluster scaled_cluster(GangScheduler scheduler) {
  ModelCluster cluster = gang_cluster(gang_job(scheduler, 4));
  cluster.settle();
  cluster.run_all();
  cluster.settle();
  cluster.job.spec.ranks = 2;
  cluster.change_spec();
  cluster.settle();
  cluster.remove_deleting_pods();
  cluster.settle();
  return cluster;
}

TEST(PodGroupTest, ScalingBringsTheGroupUpToDate) {
  const ModelCluster cluster = scaled_cluster(GangScheduler::kVolcano);
  EXPECT_EQ(groups_of(cluster), Names{"demo-job-uid-0"});
  EXPECT_EQ(cluster.pod_groups.at("demo-job-uid-0")["spec"]["minMember"], 2);
  EXPECT_EQ(cluster.job.status.gang->pods, 2);
}

TEST(PodGroupTest, ScalingTakesANewGroupWhereGroupsNeverChange) {
  const ModelCluster cluster = scaled_cluster(GangScheduler::kNative);
  EXPECT_EQ(groups_of(cluster), Names{"demo-job-uid-1"});
  EXPECT_EQ(cluster.seen.pods.size(), 2U);
}

TEST(PodGroupTest, JobThatEndedHasNoGroup) {
  for (const int exit_code : {0, 78}) {
    ModelCluster cluster = gang_cluster(gang_job(GangScheduler::kVolcano));
    cluster.settle();
    cluster.run_all();
    cluster.settle();
    cluster.end(0, exit_code);
    cluster.end(1, exit_code);
    cluster.settle();
    ASSERT_TRUE(is_finished(cluster.job.status));
    EXPECT_EQ(groups_of(cluster), Names{}) << exit_code;
    EXPECT_TRUE(cluster.decide().actions.empty());
  }
}

TEST(PodGroupTest, AnotherSchedulerOfTheTemplateTakesAnotherGroup) {
  api::TrainingJob job = gang_job(GangScheduler::kAuto);
  job.spec.pod_template = scheduled_by("volcano");
  ModelCluster cluster = gang_cluster(std::move(job));
  cluster.settle();
  EXPECT_EQ(cluster.job.status.gang->scheduler, "volcano");
  cluster.job.spec.pod_template = scheduled_by("gangs");
  cluster.change_spec();
  cluster.settle();
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_EQ(
      cluster.job.status.gang,
      (api::GangStatus{.scheduler = "coscheduling", .pod_group = "demo-job-uid-1", .pods = 2}));
  EXPECT_EQ(groups_of(cluster), Names{"demo-job-uid-1"});
}

TEST(PodGroupTest, GroupThatSomebodyDeletedIsMadeAgain) {
  ModelCluster cluster = gang_cluster(gang_job(GangScheduler::kVolcano));
  cluster.settle();
  cluster.pod_groups.clear();
  cluster.seen.lacks_pod_group = true;
  EXPECT_EQ(created(cluster.decide()), Names{"group demo-job-uid-0"});
  cluster.settle();
  EXPECT_EQ(groups_of(cluster), Names{"demo-job-uid-0"});
}

TEST(PodGroupTest, HalfAGangGivesItsNodesBackAndKeepsItsGroup) {
  ModelCluster cluster = gang_cluster(gang_job(GangScheduler::kCoscheduling));
  cluster.settle();
  cluster.pod(0).node = "node-0";
  cluster.pod(0).bound_at = cluster.now;
  cluster.settle();
  cluster.now += seconds(300);
  cluster.settle();
  EXPECT_EQ(cluster.job.status.gang_releases, 1);
  cluster.remove_deleting_pods();
  cluster.now += seconds(30);
  cluster.settle();
  EXPECT_EQ(groups_of(cluster), Names{"demo-job-uid-0"});
  EXPECT_EQ(cluster.seen.pods.size(), 2U);
}

}  // namespace
}  // namespace lockstep::plan
