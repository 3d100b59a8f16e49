#include "operator/cli/cluster_doctor.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/exit_status.h"

namespace lockstep::cli {
namespace {

using machine::Finding;
using ::testing::HasSubstr;

ClusterView sound_cluster() {
  ClusterView view;
  view.version = "1.2.3";
  view.server = "https://server";
  view.ns = "team";
  view.crd = CrdView::kOurs;
  OperatorView found;
  found.ns = "system";
  found.name = "lockstep-operator";
  found.version = "1.2.3";
  found.num_ready = 2;
  found.runtime_image = "registry.example/runtime-cpu:1.2.3";
  found.lease = LeaseView{.ns = "system",
                          .name = "lockstep-operator",
                          .holder = "pod-1",
                          .is_renewed = true,
                          .trouble = ""};
  view.operators = {found};
  return view;
}

TEST(ClusterDoctorTest, NothingIsWrongWithASoundCluster) {
  EXPECT_FALSE(machine::is_anything_wrong(judge_cluster(sound_cluster())));
  ClusterView alone = sound_cluster();
  alone.operators[0].lease.reset();  // one replica without leader election
  EXPECT_FALSE(machine::is_anything_wrong(judge_cluster(alone)));
  ClusterView by_hand = sound_cluster();
  by_hand.operators[0].name = "";  // known by its Lease alone
  by_hand.operators[0].num_ready = 0;
  EXPECT_FALSE(machine::is_anything_wrong(judge_cluster(by_hand)));
  ClusterView hidden = sound_cluster();
  hidden.crd = CrdView::kHidden;
  hidden.sees_deployments = false;
  hidden.operators.clear();
  EXPECT_FALSE(machine::is_anything_wrong(judge_cluster(hidden)));
}

TEST(ClusterDoctorTest, NamesTheImageOfJobsThatAskForGpusWhereItIsAnother) {
  const auto said_of = [](const std::string& gpu_image) {
    ClusterView view = sound_cluster();
    view.operators[0].gpu_runtime_image = gpu_image;
    for (const machine::Finding& finding : judge_cluster(view)) {
      if (finding.check == "runtime image") return finding.text;
    }
    return std::string();
  };
  EXPECT_EQ(said_of(""), "registry.example/runtime-cpu:1.2.3");
  EXPECT_EQ(said_of("registry.example/runtime:1.2.3"),
            "registry.example/runtime-cpu:1.2.3, for GPUs registry.example/runtime:1.2.3");
}

TEST(ClusterDoctorTest, EveryFindingHasOneCommand) {
  const struct {
    const char* name;
    std::function<void(ClusterView&)> change;
    const char *check, *text, *next;
  } cases[] = {
      {"no server",
       [](auto& v) {
         v.refusal = Complaint{kUnreachable, "does not answer"};
       },
       "server", "does not answer", "kubectl cluster-info"},
      {"no credentials",
       [](auto& v) {
         v.refusal = Complaint{kForbidden, "not accepted"};
       },
       "server", "not accepted", "kubectl auth whoami"},
      {"no CRD", [](auto& v) { v.crd = CrdView::kAbsent; }, "crd", "no TrainingJobs",
       "lockstep schema | kubectl apply"},
      {"another CRD", [](auto& v) { v.crd = CrdView::kOther; }, "crd", "another version",
       "lockstep schema | kubectl apply"},
      {"a server that fails to tell of the CRD",
       [](auto& v) {
         v.crd = CrdView::kUnknown;
         v.crd_trouble = "HTTP 500";
       },
       "crd", "the server fails to tell of TrainingJobs: HTTP 500",
       "kubectl get --raw '/readyz?verbose'"},
      {"a server that fails to list Deployments",
       [](auto& v) {
         v.operators.clear();
         v.operators_trouble = "timed out";
       },
       "operator", "the server fails to list Deployments: timed out",
       "kubectl get --raw '/readyz?verbose'"},
      {"a server that fails to tell rights", [](auto& v) { v.rights_trouble = "HTTP 503"; },
       "rights", "the server fails to tell them: HTTP 503", "kubectl auth can-i --list -n team"},
      {"no operator", [](auto& v) { v.operators.clear(); }, "operator", "no Deployment",
       "helm install lockstep helm/lockstep"},
      {"no pod of it, nor a leader",
       [](auto& v) {
         v.operators[0].num_ready = 0;
         v.operators[0].lease.reset();
       },
       "operator", "system/lockstep-operator has no pod that is ready",
       "kubectl -n system describe pods"},
      {"another operator", [](auto& v) { v.operators[0].version = "1.2.2"; }, "operator",
       "of version 1.2.2, this program of 1.2.3", "helm list --namespace system"},
      {"a Lease that is nobody's", [](auto& v) { v.operators[0].lease->holder = ""; }, "leader",
       "nobody's", "kubectl -n system get lease lockstep-operator -o yaml"},
      {"a leader that is gone", [](auto& v) { v.operators[0].lease->is_renewed = false; }, "leader",
       "not renewed by pod-1", "kubectl -n system get lease lockstep-operator -o yaml"},
      {"a Lease that cannot be read", [](auto& v) { v.operators[0].lease->trouble = "forbidden"; },
       "leader", "forbidden", "kubectl -n system get lease lockstep-operator -o yaml"},
      {"no runtime image", [](auto& v) { v.operators[0].runtime_image = ""; }, "runtime image",
       "names none", "kubectl -n system edit deployment lockstep-operator"},
      {"no rights",
       [](auto& v) {
         v.denied = {"create trainingjobs", "get pods/log"};
       },
       "rights", "in namespace team you may not create trainingjobs, get pods/log",
       "kubectl auth can-i --list -n team"},
  };
  for (const auto& each : cases) {
    ClusterView view = sound_cluster();
    each.change(view);
    std::vector<Finding> wrong;
    for (const Finding& finding : judge_cluster(view)) {
      if (finding.is_wrong) wrong.push_back(finding);
    }
    ASSERT_EQ(wrong.size(), 1U) << each.name << "\n" << machine::findings_text(wrong);
    EXPECT_EQ(wrong.front().check, each.check) << each.name;
    EXPECT_THAT(wrong.front().text, HasSubstr(each.text)) << each.name;
    EXPECT_THAT(wrong.front().next, HasSubstr(each.next)) << each.name;
    EXPECT_EQ(wrong.front().next.find('\n'), std::string::npos) << each.name;
  }
}

TEST(ClusterDoctorTest, AServerThatAnswersNobodyIsTheOnlyFinding) {
  ClusterView view = sound_cluster();
  view.refusal = Complaint{kUnreachable, "does not answer"};
  EXPECT_EQ(judge_cluster(view).size(), 1U);
}

}  // namespace
}  // namespace lockstep::cli
