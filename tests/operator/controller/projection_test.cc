#include "operator/controller/projection.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using nlohmann::json;

// A pod as an API server tells it, with `status` as given.
json pod_with(const json& status) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", "demo-2-1"},
            {"namespace", "team"},
            {"uid", "pod-uid"},
            {"resourceVersion", "451"},
            {"labels",
             {{"lockstep.dev/job-name", "demo"},
              {"lockstep.dev/attempt", "2"},
              {"lockstep.dev/rank", "1"}}},
            {"ownerReferences",
             {{{"kind", "TrainingJob"}, {"uid", "bystander"}},
              {{"kind", "TrainingJob"}, {"uid", "job-uid"}, {"controller", true}}}}}},
          {"spec", {{"nodeName", "node-7"}}},
          {"status", status}};
}

json container(const json& state) {
  return {{"name", "trainer"}, {"ready", false}, {"restartCount", 0}, {"state", state}};
}

json terminated(int code, const std::string& reason, const std::string& message) {
  return container({{"terminated",
                     {{"exitCode", code},
                      {"reason", reason},
                      {"message", message},
                      {"startedAt", "2026-11-21T05:00:00Z"},
                      {"finishedAt", "2026-11-21T06:00:00Z"}}}});
}

json failed(const json& container_status) {
  return {{"phase", "Failed"}, {"containerStatuses", {container_status}}};
}

TEST(ProjectPodTest, ReadsWhoseItIsAndWhereItRuns) {
  const json status = {{"phase", "Running"},
                       {"podIP", "10.1.2.3"},
                       {"containerStatuses",
                        {{{"name", "istio-proxy"}, {"ready", false}, {"state", json::object()}},
                         {{"name", "trainer"},
                          {"ready", true},
                          {"state", {{"running", {{"startedAt", "2026-11-21T05:00:00Z"}}}}}}}}};
  const std::optional<ObservedPod> pod = project_pod(pod_with(status));
  ASSERT_TRUE(pod.has_value());
  EXPECT_EQ(pod->job, "team/demo");
  EXPECT_EQ(pod->view.name, "demo-2-1");
  EXPECT_EQ(pod->view.uid, "pod-uid");
  EXPECT_EQ(pod->view.owner_uid, "job-uid") << "the controller owns, not the first in the list";
  EXPECT_EQ(pod->view.attempt, 2);
  EXPECT_EQ(pod->view.rank, 1);
  EXPECT_EQ(pod->view.phase, plan::PodPhase::kRunning);
  EXPECT_TRUE(pod->view.ready) << "of the container `trainer`, not of an injected one";
  EXPECT_EQ(pod->view.node, "node-7");
  EXPECT_EQ(pod->view.pod_ip, "10.1.2.3");
  EXPECT_FALSE(pod->view.exit.has_value());
  EXPECT_FALSE(pod->view.deleting);
}

TEST(ProjectPodTest, ReadsSinceWhenItHasItsNode) {
  const json bound = {
      {"type", "PodScheduled"}, {"status", "True"}, {"lastTransitionTime", "2026-11-21T06:00:00Z"}};
  json pod = pod_with({{"phase", "Pending"}, {"conditions", {bound}}});
  pod["metadata"]["creationTimestamp"] = "2026-11-21T05:00:00Z";
  EXPECT_EQ(project_pod(pod)->view.bound_at, api::Time(std::chrono::seconds(1795240800)));
  pod["status"].erase("conditions");  // made with the name of its node in it
  EXPECT_EQ(project_pod(pod)->view.bound_at, api::Time(std::chrono::seconds(1795237200)));
  pod["spec"].erase("nodeName");
  EXPECT_FALSE(project_pod(pod)->view.bound_at.has_value());
}

TEST(ProjectPodTest, ReadsWhatAQueueDoesWithIt) {
  json pod = pod_with({{"phase", "Pending"}});
  EXPECT_TRUE(project_pod(pod)->view.pod_group.empty());
  pod["spec"]["schedulingGates"] = {{{"name", "mine"}}};
  pod["metadata"]["finalizers"] = {"mine"};
  pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "demo-1-0";
  EXPECT_EQ(project_pod(pod)->view.pod_group, "demo-1-0");
  EXPECT_FALSE(project_pod(pod)->view.is_gated) << "by somebody else";
  EXPECT_FALSE(project_pod(pod)->view.is_held);
  EXPECT_FALSE(project_pod(pod)->view.ends_group);
  pod["spec"]["schedulingGates"].push_back({{"name", "kueue.x-k8s.io/admission"}});
  pod["metadata"]["finalizers"].push_back("kueue.x-k8s.io/managed");
  pod["metadata"]["annotations"] = {{"kueue.x-k8s.io/retriable-in-group", "false"}};
  EXPECT_TRUE(project_pod(pod)->view.is_gated);
  EXPECT_TRUE(project_pod(pod)->view.is_held);
  EXPECT_TRUE(project_pod(pod)->view.ends_group);
}

TEST(ProjectPodTest, ReadsHowTheContainerEnded) {
  const plan::PodView pod =
      project_pod(pod_with(failed(terminated(77, "Error", "{\"rank\":1}")))).value().view;
  EXPECT_EQ(pod.phase, plan::PodPhase::kFailed);
  ASSERT_TRUE(pod.exit.has_value());
  EXPECT_EQ(pod.exit->exit_code, 77);
  EXPECT_EQ(pod.exit->reason, "Error");
  EXPECT_EQ(pod.exit->message, "{\"rank\":1}");
  EXPECT_EQ(pod.exit->finished_at.time_since_epoch().count(), 1795240800);
}

TEST(ProjectPodTest, KeepsOutOfMemoryAsTheContainersReason) {
  const plan::PodView pod =
      project_pod(pod_with(failed(terminated(137, "OOMKilled", "")))).value().view;
  EXPECT_EQ(pod.exit.value().reason, "OOMKilled");
  EXPECT_EQ(pod.reason, "");
}

TEST(ProjectPodTest, KeepsEvictionAsThePodsReason) {
  const json status = {{"phase", "Failed"},
                       {"reason", "Evicted"},
                       {"message", "The node was low on resource: memory."},
                       {"conditions", {{{"type", "DisruptionTarget"}, {"status", "True"}}}}};
  const plan::PodView pod = project_pod(pod_with(status)).value().view;
  EXPECT_EQ(pod.reason, "Evicted");
  EXPECT_FALSE(pod.exit.has_value()) << "an evicted pod may tell of no container";
}

TEST(ProjectPodTest, TakesTheDisruptionConditionWhereThePodHasNoReason) {
  json status = failed(terminated(143, "Error", ""));
  status["conditions"] = {
      {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "EvictionByEvictionAPI"}}};
  EXPECT_EQ(project_pod(pod_with(status)).value().view.reason, "DisruptionTarget");
  status["conditions"][0]["status"] = "False";
  EXPECT_EQ(project_pod(pod_with(status)).value().view.reason, "");
}

TEST(ProjectPodTest, SaysWhatHoldsAPodUp) {
  const auto waiting = [](const char* reason) {
    return json{{"name", "c"}, {"state", {{"waiting", {{"reason", reason}}}}}};
  };
  const auto reason_of = [](const json& status) {
    return project_pod(pod_with(status)).value().view.waiting_reason;
  };
  EXPECT_EQ(reason_of({{"phase", "Pending"}, {"containerStatuses", {waiting("ErrImagePull")}}}),
            "ErrImagePull");
  EXPECT_EQ(reason_of({{"phase", "Pending"},
                       {"initContainerStatuses",
                        {waiting("ImagePullBackOff"), waiting("PodInitializing")}},
                       {"containerStatuses", {waiting("PodInitializing")}}}),
            "ImagePullBackOff");
  EXPECT_EQ(
      reason_of({{"phase", "Pending"},
                 {"conditions",
                  {{{"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}}}}}),
      "Unschedulable");
  EXPECT_EQ(reason_of({{"phase", "Pending"},
                       {"conditions", {{{"type", "PodScheduled"}, {"status", "True"}}}}}),
            "");
}

TEST(ProjectPodTest, ReadsADeletionAndItsDeadline) {
  json object = pod_with({{"phase", "Running"}});
  object["metadata"]["deletionTimestamp"] = "2026-11-21T06:00:00Z";
  const plan::PodView pod = project_pod(object).value().view;
  EXPECT_TRUE(pod.deleting);
  EXPECT_EQ(pod.deletion_deadline.value().time_since_epoch().count(), 1795240800);
}

TEST(ProjectPodTest, ReadsPhases) {
  const auto phase_of = [](const json& status) {
    return project_pod(pod_with(status)).value().view.phase;
  };
  EXPECT_EQ(phase_of(json::object()), plan::PodPhase::kPending);
  EXPECT_EQ(phase_of({{"phase", "Pending"}}), plan::PodPhase::kPending);
  EXPECT_EQ(phase_of({{"phase", "Succeeded"}}), plan::PodPhase::kSucceeded);
  EXPECT_EQ(phase_of({{"phase", "Unknown"}}), plan::PodPhase::kUnknown);
}

TEST(ProjectPodTest, TheRanksOwnContainerDecidesBesideOthers) {
  const auto project = [](const char* phase, const json& trainer, const json& sidecar) {
    return project_pod(pod_with({{"phase", phase},
                                 {"containerStatuses",
                                  {{{"name", "logs"}, {"state", sidecar}},
                                   {{"name", "trainer"}, {"state", trainer}}}}}))
        .value()
        .view;
  };
  const json runs = {{"running", json::object()}};
  const auto ended = [](int code) { return json{{"terminated", {{"exitCode", code}}}}; };
  EXPECT_EQ(project("Running", runs, ended(1)).phase, plan::PodPhase::kRunning);
  const plan::PodView succeeded = project("Running", ended(0), runs);
  EXPECT_EQ(succeeded.phase, plan::PodPhase::kSucceeded);
  EXPECT_TRUE(succeeded.lingers);
  const plan::PodView failed = project("Running", ended(70), runs);
  EXPECT_EQ(failed.phase, plan::PodPhase::kFailed);
  EXPECT_EQ(failed.exit->exit_code, 70);
  const plan::PodView beside_a_failure = project("Failed", ended(0), ended(1));
  EXPECT_EQ(beside_a_failure.phase, plan::PodPhase::kSucceeded);
  EXPECT_FALSE(beside_a_failure.lingers);
  EXPECT_EQ(project("Failed", ended(70), ended(0)).phase, plan::PodPhase::kFailed);
  const json stuck = {{"waiting", {{"reason", "ImagePullBackOff"}}}};
  EXPECT_EQ(project("Pending", runs, stuck).phase, plan::PodPhase::kRunning);
  EXPECT_EQ(project("Pending", ended(70), stuck).phase, plan::PodPhase::kFailed);
  const plan::PodView done = project("Pending", ended(0), stuck);
  EXPECT_EQ(done.phase, plan::PodPhase::kSucceeded);
  EXPECT_TRUE(done.lingers);
  EXPECT_EQ(project("Pending", stuck, runs).phase, plan::PodPhase::kPending);
}

TEST(ProjectPodTest, LeavesOutAPodWithoutOurLabel) {
  json object = pod_with({{"phase", "Running"}});
  object["metadata"]["labels"] = {{"app", "other"}};
  EXPECT_FALSE(project_pod(object).has_value());
  object["metadata"].erase("labels");
  EXPECT_FALSE(project_pod(object).has_value());
}

TEST(ProjectPodTest, ToleratesLabelsThatAreNoNumbers) {
  json object = pod_with({{"phase", "Running"}});
  object["metadata"]["labels"]["lockstep.dev/rank"] = "1x";
  object["metadata"]["labels"].erase("lockstep.dev/attempt");
  const plan::PodView pod = project_pod(object).value().view;
  EXPECT_EQ(pod.rank, -1);
  EXPECT_EQ(pod.attempt, -1);
}

TEST(ProjectChildTest, ReadsAnObjectWithoutOwner) {
  json object = pod_with(json::object());
  object["metadata"].erase("ownerReferences");
  const std::optional<ObservedChild> child = project_child(object);
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(child->job, "team/demo");
  EXPECT_EQ(child->view.owner_uid, "");
}

TEST(ProjectChildTest, ReadsTheTemplateThatAConfigMapKeeps) {
  json object = pod_with(json::object());
  EXPECT_EQ(child_view(object).pod_template, "");
  object["data"] = {{"job.json", "{}"}, {"template.json", R"({"spec":{}})"}};
  EXPECT_EQ(child_view(object).pod_template, R"({"spec":{}})");
}

TEST(ProjectChildTest, ThrowsOnWhatIsNoObject) {
  EXPECT_THROW(project_child(json::array()), json::exception);
  EXPECT_THROW(project_pod({{"kind", "Pod"}}), json::exception);
}

}  // namespace
}  // namespace lockstep::control
