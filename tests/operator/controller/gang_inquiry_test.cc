#include "operator/controller/gang_inquiry.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/pod_group.h"
#include "operator/plan/status.h"
#include "tests/operator/kube/fake_client.h"

namespace lockstep::control {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr api::Time kNow{seconds(1000)};

json group_with(const json& status) {
  return {{"kind", "PodGroup"}, {"status", status}};
}

TEST(ExplainPodGroupTest, TellsTheWordsOfEachScheduler) {
  const json volcano = json::parse(R"({"phase": "Pending", "conditions": [
      {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources",
       "message": "2/2 tasks in gang unschedulable"}]})");
  EXPECT_EQ(explain_pod_group(group_with(volcano)), "Pending: 2/2 tasks in gang unschedulable");
  const json native = json::parse(R"({"conditions": [
      {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "message": ""}]})");
  EXPECT_EQ(explain_pod_group(group_with(native)), "Unschedulable");
  EXPECT_EQ(explain_pod_group(group_with({{"phase", "PreScheduling"}})), "PreScheduling")
      << "coscheduling has no conditions";
  const json settled = json::parse(R"({"conditions": [
      {"type": "PodGroupScheduled", "status": "True", "message": "fine"},
      {"type": "Unschedulable", "status": "False", "message": "was full"}]})");
  EXPECT_EQ(explain_pod_group(group_with(settled)), "");
  for (const json& nonsense : {json(), json("x"), group_with(3), group_with({{"conditions", 3}}),
                               group_with({{"conditions", {3, "x"}}, {"phase", 7}})}) {
    EXPECT_EQ(explain_pod_group(nonsense), "") << nonsense;
  }
}

api::TrainingJob waiting_job() {
  api::TrainingJob job;
  job.meta = {.name = "demo", .ns = "ml"};
  job.status.gang = api::GangStatus{.scheduler = "volcano", .pod_group = "demo-1234-0", .pods = 2};
  plan::set_condition(job.status, {.type = plan::kScheduled, .reason = plan::kGangWaits}, {});
  return job;
}

TEST(GangInquiryTest, AnAnswerHoldsForAWhileAndForOneGroup) {
  kube::FakeClient client;
  for (const char* word : {"first", "second", "third", "fourth"}) {
    client.add_get(group_with({{"phase", word}}));
  }
  GangInquiry gangs(client);
  api::TrainingJob job = waiting_job();
  EXPECT_EQ(gangs.ask(job, kNow).text, "first");
  EXPECT_EQ(gangs.ask(job, kNow + seconds(14)).text, "first");
  EXPECT_EQ(client.calls(),
            std::vector<std::string>{
                "get /apis/scheduling.volcano.sh/v1beta1/namespaces/ml/podgroups/demo-1234-0"});
  EXPECT_EQ(gangs.ask(job, kNow + seconds(15)).text, "second");
  job.status.gang->pod_group = "demo-1234-1";
  EXPECT_EQ(gangs.ask(job, kNow + seconds(16)).text, "third");
  gangs.forget({"ml", "demo"});
  EXPECT_EQ(gangs.ask(job, kNow + seconds(17)).text, "fourth");
}

TEST(GangInquiryTest, GroupThatIsGoneIsMissingAndARefusalIsNot) {
  kube::FakeClient client;
  client.add_get(kube::ApiError{
      {common::ErrorCode::kNotFound, "not found", ""}, 404, "NotFound", std::nullopt});
  EXPECT_TRUE(GangInquiry(client).ask(waiting_job(), kNow).is_missing);
  client.add_get(kube::ApiError{
      {common::ErrorCode::kPermissionDenied, "cannot get", ""}, 403, "Forbidden", std::nullopt});
  const GangWord word = GangInquiry(client).ask(waiting_job(), kNow);
  EXPECT_FALSE(word.is_missing);
  EXPECT_EQ(word.text, "cannot get");
}

TEST(GangInquiryTest, AsksForNoJobThatDoesNotWait) {
  kube::FakeClient client;
  api::TrainingJob job = waiting_job();
  plan::set_condition(job.status, {.type = plan::kScheduled, .value = true, .reason = "All"}, {});
  EXPECT_EQ(GangInquiry(client).ask(job, kNow).text, "");
  EXPECT_EQ(GangInquiry(client).ask({}, kNow).text, "");
  EXPECT_TRUE(client.calls().empty());
}

}  // namespace
}  // namespace lockstep::control
