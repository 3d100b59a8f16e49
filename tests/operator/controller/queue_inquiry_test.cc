#include "operator/controller/queue_inquiry.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/queue.h"
#include "operator/plan/status.h"
#include "tests/operator/kube/fake_client.h"

namespace lockstep::control {
namespace {

using nlohmann::json;

json condition(const char* type, bool holds, const char* message) {
  return {{"type", type}, {"status", holds ? "True" : "False"}, {"message", message}};
}

json workload(const std::vector<json>& conditions) {
  return {{"status", {{"conditions", conditions}}}};
}

TEST(ExplainWorkloadTest, SaysWhatHoldsTheGroupBack) {
  const json pending = condition("QuotaReserved", false, "insufficient unused quota for cpu");
  const json evicted = condition("Evicted", true, "Preempted to accommodate a workload");
  const json reserved = condition("QuotaReserved", true, "Quota reserved");
  const json admitted = condition("Admitted", true, "The workload is admitted");
  EXPECT_EQ(explain_workload(workload({pending})), "insufficient unused quota for cpu");
  EXPECT_EQ(explain_workload(workload({evicted})), "Preempted to accommodate a workload");
  EXPECT_EQ(explain_workload(workload({evicted, pending})),
            "Preempted to accommodate a workload; insufficient unused quota for cpu");
  EXPECT_EQ(explain_workload(workload({reserved})),
            "its quota is reserved, and admission checks are pending");
  EXPECT_EQ(explain_workload(workload({reserved, admitted})), "");
  EXPECT_EQ(explain_workload(workload({})), "");
  EXPECT_EQ(explain_workload({{"status", {{"conditions", {3, "x"}}}}}), "");
  EXPECT_EQ(explain_workload("nonsense"), "");
}

api::TrainingJob queued_job() {
  api::TrainingJob job;
  job.meta = {.name = "demo", .ns = "ml"};
  job.status.queue = api::QueueStatus{"team", "demo-1234-0"};
  plan::set_condition(job.status, {.type = plan::kScheduled, .reason = plan::kQueuedReason}, {});
  return job;
}

kube::ApiError missing(const char* reason) {
  return {{common::ErrorCode::kNotFound, "not found", ""}, 404, reason, std::nullopt};
}

constexpr api::Time kNow{std::chrono::seconds(1000)};
constexpr const char* kNewWorkload =
    "get /apis/kueue.x-k8s.io/v1beta2/namespaces/ml/workloads/demo-1234-0";
constexpr const char* kOldWorkload =
    "get /apis/kueue.x-k8s.io/v1beta1/namespaces/ml/workloads/demo-1234-0";
constexpr const char* kNewQueue = "get /apis/kueue.x-k8s.io/v1beta2/namespaces/ml/localqueues/team";
constexpr const char* kOldQueue = "get /apis/kueue.x-k8s.io/v1beta1/namespaces/ml/localqueues/team";

TEST(QueueInquiryTest, TellsTheWordsOfTheWorkload) {
  kube::FakeClient client;
  client.add_get(workload({condition("QuotaReserved", false, "no room")}));
  EXPECT_EQ(QueueInquiry(client).ask(queued_job(), kNow), "no room");
  EXPECT_EQ(client.calls(), std::vector<std::string>{kNewWorkload});
}

TEST(QueueInquiryTest, ReadsTheOlderVersionWhereTheNewerIsNotServed) {
  kube::FakeClient client;
  client.add_get(missing(""));
  client.add_get(workload({condition("QuotaReserved", false, "no room")}));
  EXPECT_EQ(QueueInquiry(client).ask(queued_job(), kNow), "no room");
  EXPECT_EQ(client.calls(), (std::vector<std::string>{kNewWorkload, kOldWorkload}));
}

TEST(QueueInquiryTest, NamesAQueueThatDoesNotExist) {
  kube::FakeClient client;
  client.add_get(missing("NotFound"));
  client.add_get(missing("NotFound"));
  EXPECT_EQ(QueueInquiry(client).ask(queued_job(), kNow),
            "there is no LocalQueue \"team\" in namespace ml");
  EXPECT_EQ(client.calls(), (std::vector<std::string>{kNewWorkload, kNewQueue}));
}

TEST(QueueInquiryTest, SaysThatKueueIsNotThere) {
  kube::FakeClient client;
  for (int i = 0; i < 4; ++i) client.add_get(missing(""));
  EXPECT_EQ(QueueInquiry(client).ask(queued_job(), kNow), "Kueue is not installed in this cluster");
  EXPECT_EQ(client.calls(),
            (std::vector<std::string>{kNewWorkload, kOldWorkload, kNewQueue, kOldQueue}));
}

TEST(QueueInquiryTest, TellsWhatTheServerRefuses) {
  kube::FakeClient client;
  const kube::ApiError forbidden = {
      {common::ErrorCode::kPermissionDenied, "cannot get", ""}, 403, "Forbidden", std::nullopt};
  client.add_get(forbidden);
  client.add_get(forbidden);
  EXPECT_EQ(QueueInquiry(client).ask(queued_job(), kNow), "cannot get");
}

TEST(QueueInquiryTest, AnAnswerHoldsForAWhileAndForOneGroup) {
  kube::FakeClient client;
  for (const char* word : {"first", "second", "third", "fourth"}) {
    client.add_get(workload({condition("QuotaReserved", false, word)}));
  }
  QueueInquiry queues(client);
  api::TrainingJob job = queued_job();
  EXPECT_EQ(queues.ask(job, kNow), "first");
  EXPECT_EQ(queues.ask(job, kNow + std::chrono::seconds(14)), "first");
  EXPECT_EQ(client.calls().size(), 1U) << "reconciles in between make no call";
  EXPECT_EQ(queues.ask(job, kNow + std::chrono::seconds(15)), "second");
  job.status.queue->pod_group = "demo-1234-1";
  EXPECT_EQ(queues.ask(job, kNow + std::chrono::seconds(16)), "third");
  queues.forget({"ml", "demo"});
  EXPECT_EQ(queues.ask(job, kNow + std::chrono::seconds(17)), "fourth");
}

TEST(QueueInquiryTest, AsksForNoJobThatDoesNotWait) {
  kube::FakeClient client;
  api::TrainingJob job = queued_job();
  plan::set_condition(job.status, {.type = plan::kScheduled, .value = true, .reason = "All"}, {});
  EXPECT_EQ(QueueInquiry(client).ask(job, kNow), "");
  EXPECT_EQ(QueueInquiry(client).ask({}, kNow), "");
  EXPECT_TRUE(client.calls().empty());
}

}  // namespace
}  // namespace lockstep::control
