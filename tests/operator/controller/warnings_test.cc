#include "operator/controller/warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/kube/http_client.h"
#include "tests/operator/controller/operator_run.h"
#include "tests/operator/controller/served_api.h"

namespace lockstep::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kLevel =
    "would violate PodSecurity \"restricted:latest\": seccompProfile (pod or container \"trainer\" "
    "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

std::vector<json> warning_events(const FakeApiServer& server) {
  std::vector<json> events = server.objects("events");
  std::erase_if(events, [](const json& event) { return event["type"] != "Warning"; });
  return events;
}

TEST(WarningsTest, NamesTheLabelThatSetsAPodSecurityLevelAfterTheServersWords) {
  const std::vector<plan::Event> events = explain_warnings({kLevel}, "team");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_TRUE(events[0].warning);
  EXPECT_EQ(events[0].reason, "PodSecurity");
  EXPECT_EQ(events[0].message, "the pods are admitted, but the API server warns: " + kLevel +
                                   "; that level is set by the label "
                                   "pod-security.kubernetes.io/warn of namespace team, or by the "
                                   "cluster's default");
}

TEST(WarningsTest, AllElseIsOneEventOfItsOwn) {
  const std::vector<plan::Event> events =
      explain_warnings({"v1 is old", kLevel, "label x is deprecated"}, "team");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].reason, "PodSecurity");
  EXPECT_EQ(events[1].reason, "ServerWarning");
  EXPECT_EQ(events[1].message, "the API server warns: v1 is old; label x is deprecated");
  EXPECT_THAT(explain_warnings({}, "team"), IsEmpty());
}

TEST(WarningsTest, AGangOfWhichTheServerWarnsIsOneEventAndRunsAllTheSame) {
  OperatorRun cluster([](const std::string&) { return "Succeeded"; });
  cluster.server().warn("pods", {kLevel});
  cluster.server().add("trainingjobs", demo_job(4));
  cluster.start_operator();
  cluster.run_to_rest();
  EXPECT_EQ(cluster.job()["status"]["state"], "Succeeded");
  const std::vector<json> events = warning_events(cluster.server());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["reason"], "PodSecurity");
  EXPECT_EQ(events[0]["count"], 1);
  EXPECT_THAT(events[0]["message"].get<std::string>(), HasSubstr(kLevel));
  EXPECT_THAT(events[0]["message"].get<std::string>(), HasSubstr("of namespace default,"));
}

TEST(WarningsTest, OfAllPodsTogetherAreNoEventOfAnyLength) {
  OperatorRun cluster([](const std::string&) { return "Succeeded"; });
  kube::Warnings texts;
  for (int i = 0; i < 20; ++i) texts.push_back(std::string("w").append(std::to_string(i)));
  cluster.server().warn("pods", texts);
  cluster.server().add("trainingjobs", demo_job(3));
  cluster.start_operator();
  cluster.run_to_rest();
  const std::vector<json> events = warning_events(cluster.server());
  ASSERT_EQ(events.size(), 1U);
  const auto message = events[0]["message"].get<std::string>();
  EXPECT_TRUE(message.ends_with("; w14; w15; and more warnings")) << message;
}

TEST(WarningsTest, ALaterAttemptCountsTheSameEventUp) {
  OperatorRun cluster(
      [](const std::string& pod) { return pod == "demo-0-1" ? "Failed" : "Succeeded"; });
  cluster.server().warn("pods", {kLevel});
  cluster.server().add("trainingjobs", demo_job(3));
  cluster.start_operator();
  cluster.run_to_rest();
  ASSERT_EQ(cluster.job()["status"]["attempt"], 1);
  std::vector<json> events = warning_events(cluster.server());
  std::erase_if(events, [](const json& event) { return event["reason"] != "PodSecurity"; });
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["count"], 2);
}

TEST(WarningsTest, IsToldThoughTheJobChangedUnderItsStatus) {
  OperatorRun cluster([](const std::string&) { return "Succeeded"; });
  FakeApiServer& server = cluster.server();
  server.warn("pods", {kLevel});
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  ASSERT_TRUE(cluster.reconcile().has_value());  // records the attempt
  server.set_on_write([](const std::string& write) -> std::optional<kube::ApiError> {
    if (!write.starts_with("status ")) return std::nullopt;
    return refusal(common::ErrorCode::kConflict, 409, "the object has been modified");
  });
  EXPECT_FALSE(cluster.reconcile().has_value());  // makes the gang
  server.set_on_write(nullptr);
  cluster.run_to_rest();
  const std::vector<json> events = warning_events(server);
  ASSERT_EQ(events.size(), 1U) << "pods that are there are not made again: now or never";
  EXPECT_EQ(events[0]["reason"], "PodSecurity");
}

TEST(WarningsTest, WhatIsNotCreatedIsToldByItsRefusalAlone) {
  OperatorRun cluster([](const std::string&) { return "Succeeded"; });
  FakeApiServer& server = cluster.server();
  server.warn("pods", {kLevel});
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  ASSERT_TRUE(cluster.reconcile().has_value());
  server.set_on_write([](const std::string& write) -> std::optional<kube::ApiError> {
    if (!write.starts_with("create pods/")) return std::nullopt;
    return refusal(common::ErrorCode::kPermissionDenied, 403, "exceeded quota: gpus");
  });
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(cluster.reconcile().has_value());
  const std::vector<json> events = warning_events(server);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["reason"], "CreationRefused");
}

TEST(WarningsTest, ComeOverHttpFromAServerInMemory) {
  FakeApiServer server;
  server.warn("pods", {kLevel, "100% of C:\\"});
  ServedApi served(server);
  kube::ClientConfig config;
  config.server = served.url();
  const auto client = kube::make_http_client(config, {});
  ASSERT_TRUE(client.has_value());
  const json pod = {{"metadata", {{"name", "a"}, {"namespace", "default"}}}};
  const kube::ResourcePath pods{{"", "v1", "pods"}, "default", "", ""};
  kube::Warnings warnings;
  EXPECT_TRUE(std::holds_alternative<json>((*client)->create(pods, pod, warnings)));
  EXPECT_THAT(warnings, ElementsAre(kLevel, "100% of C:\\"));
}

}  // namespace
}  // namespace lockstep::control
