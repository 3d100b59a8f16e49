#include "operator/cli/explain_job.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/half_gang.h"
#include "operator/plan/pod_group.h"
#include "operator/plan/queue.h"
#include "operator/plan/status.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const api::Time kNow{std::chrono::seconds(1'800'000'000)};

api::TrainingJob job_with(std::vector<plan::ConditionUpdate> conditions) {
  api::TrainingJob job;
  job.meta = {.name = "demo", .ns = "team", .creation_time = kNow - std::chrono::hours(1)};
  job.status.ranks.desired = 4;
  for (const plan::ConditionUpdate& condition : conditions) {
    plan::set_condition(job.status, condition, kNow);
  }
  return job;
}

json pod_json(const std::string& name, const json& status) {
  return {{"metadata", {{"name", name}, {"labels", {{"lockstep.dev/job-name", "demo"}}}}},
          {"spec", {{"nodeName", "n1"}}},
          {"status", status}};
}

json unschedulable(const std::string& message) {
  const json condition = {{"type", "PodScheduled"},
                          {"status", "False"},
                          {"reason", "Unschedulable"},
                          {"message", message}};
  return {{"phase", "Pending"}, {"conditions", {condition}}};
}

json waiting(const std::string& reason, const std::string& message) {
  const json state = {{"waiting", {{"reason", reason}, {"message", message}}}};
  return {{"phase", "Pending"},
          {"containerStatuses", json::array({{{"name", "trainer"}, {"state", state}}})}};
}

api::TrainingJob failed_job() {
  api::TrainingJob job = job_with({{plan::kAccepted, true, "Valid", ""},
                                   {plan::kScheduled, true, "AllRanksScheduled", ""},
                                   {plan::kFailed, true, "NonFinite", "the loss is nan"}});
  job.status.first_failure = api::FirstFailure{.rank = 3,
                                               .pod = "demo-0-3",
                                               .node = "n7",
                                               .step = 121,
                                               .reason = "NonFinite",
                                               .message = "the loss is not finite",
                                               .hint = "lower the learning rate"};
  return job;
}

api::TrainingJob restarting_job() {
  api::TrainingJob job = failed_job();
  job.status.conditions.clear();
  plan::set_condition(job.status, {plan::kScheduled, false, "WaitingForNodes", ""}, kNow);
  plan::set_condition(job.status, {plan::kRunning, false, plan::kRestartingReason, ""}, kNow);
  job.status.budget.used = 2;
  job.status.restart_not_before = kNow + std::chrono::seconds(8);
  return job;
}

api::TrainingJob released_job() {
  api::TrainingJob job = job_with(
      {{plan::kAccepted, true, "Valid", ""},
       {plan::kScheduled, false, plan::kGangReleased, "half a gang gave its nodes back once"}});
  job.status.attempt = 1;
  job.status.gang_releases = 1;
  job.status.restart_not_before = kNow + std::chrono::seconds(20);
  return job;
}

api::TrainingJob queued_job() {
  api::TrainingJob job = job_with({{plan::kAccepted, true, "Valid", ""},
                                   {plan::kScheduled, false, plan::kQueuedReason,
                                    "waits in queue team of Kueue: insufficient quota"}});
  job.status.queue = api::QueueStatus{.name = "team", .pod_group = "demo-1234-0"};
  job.meta.labels["kueue.x-k8s.io/queue-name"] = "next";  // in force from the next attempt on
  return job;
}

api::TrainingJob gang_job() {
  api::TrainingJob job = job_with({{plan::kAccepted, true, "Valid", ""},
                                   {plan::kScheduled, false, plan::kGangWaits,
                                    "waits for volcano to give nodes to all 4 pods"}});
  job.status.gang = api::GangStatus{.scheduler = "volcano", .pod_group = "demo-1234-0", .pods = 4};
  return job;
}

api::TrainingJob managed_by_another() {
  api::TrainingJob job = job_with({});
  job.spec.managed_by = "kueue.x-k8s.io/multikueue";
  return job;
}

api::TrainingJob fresh_job() {
  api::TrainingJob job = job_with({});
  job.meta.creation_time = kNow - std::chrono::seconds(3);
  return job;
}

api::TrainingJob deleted_job() {
  api::TrainingJob job = job_with({});
  job.meta.deletion_time = kNow;
  return job;
}

api::TrainingJob slow_job() {
  api::TrainingJob job = job_with({{plan::kRunning, true, "AllRanksRunning", ""}});
  job.status.straggler = api::Straggler{.rank = 3, .node = "n7", .ratio = "1.80"};
  return job;
}

struct Case {
  const char* headline;
  api::TrainingJob job;
  json pods;
  const char* why;   // in one of its lines
  const char* todo;  // in one of its lines; empty: there is nothing to do
};

api::TrainingJob refused(const char* reason, const char* message) {
  return job_with(
      {{plan::kAccepted, true, "Valid", ""}, {plan::kScheduled, false, reason, message}});
}

std::vector<Case> cases() {
  const api::TrainingJob pending = refused("WaitingForNodes", "");
  return {
      {"just created", fresh_job(), json::array(), "no operator has looked", ""},
      {"not seen by any operator", job_with({}), json::array(), "no operator has written",
       "kubectl get deployments -A"},
      {"left to another controller", managed_by_another(), json::array(), "multikueue", ""},
      {"being deleted", deleted_job(), json::array({pod_json("demo-0-0", {})}), "1 pods are left",
       ""},
      {"not accepted", job_with({{plan::kAccepted, false, "Invalid", "spec.ranks: too many"}}),
       json::array(), "spec.ranks: too many", "kubectl edit tjob demo -n team"},
      {"suspended", job_with({{plan::kSuspended, true, "Suspended", ""}}), json::array(),
       "spec.suspend is true", "lockstep resume demo -n team"},
      {"stopping in good order", job_with({{plan::kRunning, false, plan::kSuspendingReason, ""}}),
       json::array(), "save a checkpoint", ""},
      {"its pods are refused", refused("CreationRefused", "exceeded quota: gpus"), json::array(),
       "exceeded quota: gpus", "raise the quota of namespace team"},
      {"its pods are refused", refused("PodSecurity", "violates PodSecurity"), json::array(),
       "violates PodSecurity", "remove what the level forbids"},
      {"a name that it needs is taken", refused("NameTaken", ""), json::array(), "NameTaken",
       "delete the object that has it"},
      {"waiting for nodes", pending,
       json::array({pod_json("demo-0-0", unschedulable("0/3 nodes: Insufficient gpu")),
                    pod_json("demo-0-2", unschedulable("0/3 nodes: Insufficient gpu"))}),
       "ranks 0 and 2: Unschedulable: 0/3 nodes: Insufficient gpu", "make room"},
      {"waiting for nodes", pending,
       json::array({pod_json("demo-0-1", waiting("ImagePullBackOff", "no such image"))}),
       "rank 1: ImagePullBackOff: no such image", "spec.imagePullSecrets"},
      {"waiting for nodes", pending, json::array({pod_json("demo-0-0", {{"phase", "Running"}})}),
       "1 of 4 pods have nodes and give them back if the others get none: nodes are held for 5m",
       ""},
      {"waiting for nodes", released_job(), json::array(),
       "half a gang gave its nodes back once, for the other pods got none in time\nthe next "
       "attempt "
       "begins in 20s",
       "make room"},
      {"waiting in a queue", queued_job(), json::array(),
       "waits in queue team of Kueue: insufficient quota", "kubectl get localqueue team -n team"},
      {"waiting for nodes", gang_job(), json::array(),
       "waits for volcano to give nodes to all 4 pods",
       "kubectl describe podgroups.scheduling.volcano.sh demo-1234-0 -n team"},
      {"its gang scheduler is missing",
       refused(plan::kGangSchedulerMissing, "gangScheduler is volcano, but"), json::array(),
       "gangScheduler is volcano, but", "spec.scheduling.gangScheduler"},
      {"restarting", restarting_job(), json::array(), "the next attempt begins in 8s",
       "lower the learning rate"},
      {"running", job_with({{plan::kRunning, true, "AllRanksRunning", ""}}), json::array(), "", ""},
      {"stalled",
       job_with({{plan::kRunning, true, "AllRanksRunning", ""},
                 {plan::kStalled, true, "NoStep", "no step for 900 s"}}),
       json::array(), "no step for 900 s", "lockstep logs demo -n team --all-ranks"},
      {"running, and kept waiting by one rank", slow_job(), json::array(), "rank 3 on n7",
       "look at that node"},
      {"failed", failed_job(), json::array(), "rank 3 on n7: NonFinite",
       "lockstep logs demo -n team --rank 3"},
      {"succeeded", job_with({{plan::kSucceeded, true, "AllRanksSucceeded", ""}}), json::array(),
       "all ranks finished", ""},
  };
}

std::string all_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(ExplainJobTest, EveryStateHasItsReasonAndItsRemedy) {
  for (const Case& one : cases()) {
    const Explanation said = explain_job(one.job, pods_of(one.job, one.pods), kNow);
    EXPECT_EQ(said.headline, one.headline);
    EXPECT_THAT(all_of(said.why), HasSubstr(one.why)) << one.headline;
    EXPECT_THAT(all_of(said.todo), HasSubstr(one.todo)) << one.headline;
    EXPECT_EQ(said.todo.empty(), *one.todo == '\0') << one.headline << ": " << all_of(said.todo);
  }
}

TEST(ExplainJobTest, ManyRanksWithOneTroubleAreOneLine) {
  const api::TrainingJob job = refused("WaitingForNodes", "");
  json pods = json::array();
  for (int rank = 0; rank < 16; ++rank) {
    pods.push_back(pod_json("demo-0-" + std::to_string(rank), unschedulable("full")));
  }
  EXPECT_EQ(explain_job(job, pods_of(job, pods), kNow).why,
            std::vector<std::string>{"ranks 0, 1, 2 and 13 more: Unschedulable: full"});
}

TEST(ExplainJobTest, PodsOfOthersAndOfOlderAttemptsDoNotCount) {
  api::TrainingJob job = refused("WaitingForNodes", "");
  job.status.attempt = 1;
  json stranger = pod_json("demo-1-0", unschedulable("not ours"));
  stranger["metadata"]["labels"]["lockstep.dev/job-name"] = "other";
  const json pods = {pod_json("demo-0-0", unschedulable("old")),
                     stranger,
                     "nonsense",
                     {{"metadata", {{"name", 3}}}}};
  EXPECT_EQ(explain_job(job, pods_of(job, pods), kNow).why, std::vector<std::string>{});
}

TEST(ReadPodTest, TakesNameNodePhaseAndExit) {
  const json state = {{"terminated", {{"exitCode", 77}}}};
  const auto fact = read_pod(pod_json(
      "demo-2-8", {{"phase", "Failed"},
                   {"containerStatuses", json::array({{{"name", "trainer"}, {"state", state}}})}}));
  ASSERT_TRUE(fact.has_value());
  EXPECT_EQ(fact->attempt, 2);
  EXPECT_EQ(fact->rank, 8);
  EXPECT_EQ(fact->phase, "Failed");
  EXPECT_EQ(fact->node, "n1");
  EXPECT_EQ(fact->exit_code, 77);
  EXPECT_FALSE(read_pod(pod_json("something-else", {})).has_value());
}

}  // namespace
}  // namespace lockstep::cli
