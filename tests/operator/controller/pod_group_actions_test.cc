// PodGroups on an API server, alone and as the reconciler makes them.
#include "operator/controller/pod_group_actions.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/actions.h"
#include "tests/operator/controller/operator_run.h"

namespace lockstep::control {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;

constexpr const char* kVersion = "scheduling.volcano.sh/v1beta1";
const kube::ObjectKey kGroup{"default", "g"};

api::TrainingJob owner() {
  api::TrainingJob job;
  job.meta = {.name = "demo", .ns = "default", .uid = "job-uid"};
  return job;
}

plan::CreatePodGroup group_of(int64_t pods, const std::string& owner_uid = "job-uid") {
  const json owners =
      json::array({{{"kind", "TrainingJob"}, {"uid", owner_uid}, {"controller", true}}});
  return {
      .name = "g",
      .body = {{"apiVersion", kVersion},
               {"kind", "PodGroup"},
               {"metadata", {{"name", "g"}, {"namespace", "default"}, {"ownerReferences", owners}}},
               {"spec", {{"minMember", pods}}}}};
}

TEST(PodGroupActionsTest, BringsTheGroupToWhatIsWanted) {
  FakeApiServer server;
  EXPECT_TRUE(bring_pod_group(server, owner(), group_of(2)).has_changed);
  server.edit("podgroups", kGroup, [](json& group) { group["spec"]["queue"] = "default"; });
  EXPECT_FALSE(bring_pod_group(server, owner(), group_of(2)).has_changed);
  EXPECT_TRUE(bring_pod_group(server, owner(), group_of(4)).has_changed);
  EXPECT_EQ(server.object("podgroups", kGroup)->at("spec"),
            json({{"minMember", 4}, {"queue", "default"}}))
      << "what others set stays";
  EXPECT_THAT(server.writes(), ElementsAre("create podgroups/g", "patch podgroups/g"));
}

TEST(PodGroupActionsTest, LeavesTheGroupOfAnotherOwnerAlone) {
  FakeApiServer server;
  server.add("podgroups", group_of(3, "somebody").body);
  const PodGroupWrite write = bring_pod_group(server, owner(), group_of(2));
  ASSERT_FALSE(write.result.has_value());
  EXPECT_EQ(write.result.error().code, common::ErrorCode::kConflict);
  EXPECT_EQ(write.result.error().message, "PodGroup g belongs to another owner");
  EXPECT_TRUE(remove_pod_group(server, owner(), {"g", kVersion}).result.has_value());
  EXPECT_TRUE(server.writes().empty());
}

TEST(PodGroupActionsTest, DeletesItsOwnOnceAndMissesNoneThatIsGone) {
  FakeApiServer server;
  server.add("podgroups", group_of(2).body);
  EXPECT_TRUE(remove_pod_group(server, owner(), {"g", kVersion}).has_changed);
  const PodGroupWrite again = remove_pod_group(server, owner(), {"g", kVersion});
  EXPECT_TRUE(again.result.has_value());
  EXPECT_FALSE(again.has_changed);
}

TEST(PodGroupActionsTest, TypeThatIsServedNoMoreIsNotTheEndOfTheJob) {
  FakeApiServer server;
  server.set_on_write([](const std::string&) {
    return refusal(common::ErrorCode::kNotFound, 404, "404 page not found");
  });
  const PodGroupWrite write = bring_pod_group(server, owner(), group_of(2));
  ASSERT_FALSE(write.result.has_value());
  EXPECT_EQ(write.result.error().code, common::ErrorCode::kUnavailable);
  EXPECT_FALSE(is_ending(write.result.error()));
}

std::string keeps_running(const std::string&) {
  return "Running";
}

// One document for every discovery: all groups are served.
void serve_pod_groups(FakeApiServer& server) {
  server.add("", {{"metadata", {{"name", ""}}},
                  {"resources", json::array({{{"name", "podgroups"}}})},
                  {"versions", json::array({{{"version", "v1"}}, {{"version", "v1alpha2"}}})}});
}

json gang_job(const char* scheduler) {
  json job = demo_job(2);
  job["spec"]["scheduling"]["gangScheduler"] = scheduler;
  return job;
}

std::string group_name(const OperatorRun& cluster) {
  return cluster.job()["status"]["gang"]["podGroup"].get<std::string>();
}

TEST(GangReconcilerTest, GroupIsMadeBeforeItsPods) {
  OperatorRun cluster(keeps_running);
  serve_pod_groups(cluster.server());
  cluster.server().add("trainingjobs", gang_job("volcano"));
  cluster.start_operator();
  ASSERT_TRUE(cluster.settle());
  const std::vector<std::string> writes = cluster.server().writes();
  const auto place = [&writes](const std::string& write) {
    return std::find(writes.begin(), writes.end(), write) - writes.begin();
  };
  EXPECT_LT(place("create podgroups/" + group_name(cluster)), place("create pods/demo-0-0"));
  const json pod = *cluster.server().object("pods", {"default", "demo-0-0"});
  EXPECT_EQ(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], group_name(cluster));
  EXPECT_EQ(pod["spec"]["schedulerName"], "volcano");
}

TEST(GangReconcilerTest, AutoTakesTheNativeGroupOfTheDefaultScheduler) {
  OperatorRun cluster(keeps_running);
  serve_pod_groups(cluster.server());
  cluster.server().add("trainingjobs", demo_job(2));
  cluster.start_operator();
  ASSERT_TRUE(cluster.settle());
  EXPECT_EQ(cluster.job()["status"]["gang"]["scheduler"], "native");
  const json group = *cluster.server().object("podgroups", {"default", group_name(cluster)});
  EXPECT_EQ(group["spec"]["schedulingPolicy"]["gang"]["minCount"], 2);
}

TEST(GangReconcilerTest, SchedulerThatIsMissingIsToldAndNoPodIsMade) {
  OperatorRun cluster(keeps_running);
  cluster.server().add("trainingjobs", gang_job("coscheduling"));
  cluster.start_operator();
  ASSERT_TRUE(cluster.settle());
  EXPECT_TRUE(cluster.server().objects("pods").empty());
  EXPECT_EQ(cluster.job()["status"]["message"],
            "spec.scheduling.gangScheduler is coscheduling, but the API server serves no PodGroup "
            "of scheduling.x-k8s.io/v1alpha1");
  EXPECT_THAT(cluster.server().writes(), Contains("create events/GangSchedulerMissing"));
  serve_pod_groups(cluster.server());
  cluster.advance(std::chrono::minutes(1));
  ASSERT_TRUE(cluster.settle());
  EXPECT_EQ(cluster.server().objects("pods").size(), 2U) << "it was installed";
}

TEST(GangReconcilerTest, GroupThatSomebodyDeletedIsMadeAgain) {
  OperatorRun cluster(keeps_running);
  serve_pod_groups(cluster.server());
  cluster.server().add("trainingjobs", gang_job("volcano"));
  cluster.start_operator();
  ASSERT_TRUE(cluster.settle());
  const kube::ObjectKey group{"default", group_name(cluster)};
  cluster.server().erase("podgroups", group);
  cluster.advance(std::chrono::seconds(15));
  ASSERT_TRUE(cluster.settle());
  EXPECT_TRUE(cluster.server().object("podgroups", group).has_value());
}

TEST(GangReconcilerTest, SuspendedJobHasNoGroupAndAResumedOneANewOne) {
  OperatorRun cluster(keeps_running);
  serve_pod_groups(cluster.server());
  cluster.server().add("trainingjobs", gang_job("volcano"));
  cluster.start_operator();
  ASSERT_TRUE(cluster.settle());
  const std::string first = group_name(cluster);
  const auto suspend = [&cluster](bool suspends) {
    cluster.server().edit("trainingjobs", kDemo,
                          [suspends](json& job) { job["spec"]["suspend"] = suspends; });
    ASSERT_TRUE(cluster.settle());
  };
  suspend(true);
  EXPECT_EQ(cluster.job()["status"]["state"], "Suspended");
  EXPECT_TRUE(cluster.server().objects("podgroups").empty());
  suspend(false);
  EXPECT_EQ(cluster.server().objects("podgroups").size(), 1U);
  EXPECT_NE(group_name(cluster), first);
}

}  // namespace
}  // namespace lockstep::control
