#include "operator/controller/gang_discovery.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/status.h"
#include "tests/operator/kube/fake_client.h"

namespace lockstep::control {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using Calls = std::vector<std::string>;

constexpr api::Time kNow{seconds(1000)};
constexpr const char* kCoscheduling = "get /apis/scheduling.x-k8s.io/v1alpha1";
constexpr const char* kVolcano = "get /apis/scheduling.volcano.sh/v1beta1";
constexpr const char* kNative = "get /apis/scheduling.k8s.io";
constexpr const char* kWorkload = "get /apis/scheduling.k8s.io/v1alpha2";

kube::ApiError missing() {
  return {{common::ErrorCode::kNotFound, "not found", ""}, 404, "", std::nullopt};
}

kube::ApiError away() {
  return {{common::ErrorCode::kUnavailable, "no answer", ""}, 0, "", std::nullopt};
}

json resources(const char* name) {
  return {{"resources", json::array({{{"name", "somethings"}}, {{"name", name}}})}};
}

json versions(const std::vector<const char*>& names) {
  json list = json::array();
  for (const char* name : names) list.push_back({{"version", name}});
  return {{"versions", list}};
}

api::TrainingJob new_job() {
  api::TrainingJob job;
  job.meta = {.name = "demo", .ns = "ml"};
  return job;
}

TEST(GangDiscoveryTest, ClusterWithoutAnyCostsThreeRequests) {
  kube::FakeClient client;
  client.add_get(missing());
  client.add_get(missing());
  client.add_get(versions({"v1"}));
  EXPECT_EQ(GangDiscovery(client).ask(new_job(), kNow), plan::GangApis{});
  EXPECT_EQ(client.calls(), (Calls{kCoscheduling, kVolcano, kNative}));
}

TEST(GangDiscoveryTest, FindsWhatIsServed) {
  kube::FakeClient client;
  client.add_get(resources("podgroups"));
  client.add_get(resources("queues"));
  client.add_get(versions({"v1", "v1alpha2"}));
  client.add_get(resources("podgroups"));
  const plan::GangApis apis = GangDiscovery(client).ask(new_job(), kNow);
  EXPECT_EQ(apis, (plan::GangApis{.coscheduling = true, .native = true}))
      << "Volcano's version is there, its PodGroup is not";
  EXPECT_EQ(client.calls(), (Calls{kCoscheduling, kVolcano, kNative, kWorkload}));
}

TEST(GangDiscoveryTest, OtherVersionsOfTheWorkloadApiAreIgnoredByName) {
  kube::FakeClient client;
  client.add_get(missing());
  client.add_get(missing());
  client.add_get(versions({"v1", "v1beta1", "v1alpha3"}));
  EXPECT_EQ(
      GangDiscovery(client).ask(new_job(), kNow),
      (plan::GangApis{.ignored = {"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"}}));
}

TEST(GangDiscoveryTest, WithoutTheRightToAskNothingIsServedAndItIsSaid) {
  kube::FakeClient client;
  const kube::ApiError forbidden = {{common::ErrorCode::kPermissionDenied, "cannot get path", ""},
                                    403,
                                    "Forbidden",
                                    std::nullopt};
  for (int i = 0; i < 3; ++i) client.add_get(forbidden);
  EXPECT_EQ(GangDiscovery(client).ask(new_job(), kNow),
            (plan::GangApis{.trouble = "cannot get path"}));
}

TEST(GangDiscoveryTest, AnAnswerHoldsForAMinuteForAllJobs) {
  kube::FakeClient client;
  for (int round = 0; round < 2; ++round) {
    client.add_get(missing());
    client.add_get(round == 0 ? kube::FakeClient::Answer(missing()) : resources("podgroups"));
    client.add_get(versions({"v1"}));
  }
  GangDiscovery discovery(client);
  EXPECT_FALSE(discovery.ask(new_job(), kNow).volcano);
  EXPECT_FALSE(discovery.ask(new_job(), kNow + seconds(59)).volcano);
  EXPECT_EQ(client.calls().size(), 3U) << "jobs in between cost no call";
  EXPECT_TRUE(discovery.ask(new_job(), kNow + seconds(60)).volcano) << "installed meanwhile";
  EXPECT_EQ(client.calls().size(), 6U);
}

TEST(GangDiscoveryTest, FailureIsNoAnswerAndIsTriedAgainSoon) {
  kube::FakeClient client;
  client.add_get(away());
  GangDiscovery discovery(client);
  EXPECT_FALSE(discovery.ask(new_job(), kNow).is_known);
  EXPECT_FALSE(discovery.ask(new_job(), kNow + seconds(4)).is_known);
  EXPECT_EQ(client.calls().size(), 1U);
  client.add_get(resources("podgroups"));
  client.add_get(missing());
  client.add_get(versions({"v1"}));
  EXPECT_TRUE(discovery.ask(new_job(), kNow + seconds(5)).coscheduling);
  client.add_get(away());
  EXPECT_TRUE(discovery.ask(new_job(), kNow + seconds(65)).coscheduling) << "the older answer";
}

TEST(GangDiscoveryTest, AsksForNoJobThatGetsNoPods) {
  kube::FakeClient client;
  std::vector<api::TrainingJob> jobs(5, new_job());
  jobs[0].spec.scheduling.gang_scheduler = api::GangScheduler::kNone;
  jobs[1].spec.suspend = true;
  jobs[2].meta.deletion_time = kNow;
  plan::set_condition(jobs[3].status, {.type = plan::kScheduled, .value = true, .reason = "x"}, {});
  plan::set_condition(jobs[4].status, {.type = plan::kFailed, .value = true, .reason = "x"}, {});
  GangDiscovery discovery(client);
  for (const api::TrainingJob& job : jobs) EXPECT_FALSE(discovery.ask(job, kNow).is_known);
  EXPECT_TRUE(client.calls().empty());
}

}  // namespace
}  // namespace lockstep::control
