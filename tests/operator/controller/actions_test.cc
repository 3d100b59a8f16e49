#include "operator/controller/actions.h"

#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/controller/fake_api_server.h"

namespace lockstep::control {
namespace {

using common::ErrorCode;
using nlohmann::json;
using testing::ElementsAre;

api::TrainingJob demo() {
  api::TrainingJob job;
  job.meta = {.name = "demo", .ns = "team", .uid = "job-uid", .resource_version = "7"};
  return job;
}

json object(const std::string& name, const std::string& owner_uid) {
  json result = {{"metadata", {{"name", name}, {"namespace", "team"}}}};
  if (!owner_uid.empty()) {
    result["metadata"]["ownerReferences"] = {{{"uid", owner_uid}, {"controller", true}}};
  }
  return result;
}

std::vector<plan::Action> create_pods(int count) {
  std::vector<plan::Action> actions;
  for (int rank = 0; rank < count; ++rank) {
    const std::string name = "demo-0-" + std::to_string(rank);
    actions.emplace_back(plan::CreatePod{name, rank, object(name, "job-uid")});
  }
  return actions;
}

TEST(ApplyTest, CreatesInOrderAndTellsTheNewestVersions) {
  FakeApiServer server;
  std::vector<plan::Action> actions = {plan::CreateConfigMap{"demo-0", object("demo-0", "job-uid")},
                                       plan::CreateService{"demo", object("demo", "job-uid")}};
  for (plan::Action& pod : create_pods(2)) actions.push_back(std::move(pod));
  const ApplyOutcome outcome = apply_in_order(server, demo(), actions);
  EXPECT_TRUE(outcome.result.has_value());
  EXPECT_EQ(outcome.applied, 4);
  EXPECT_THAT(server.writes(), ElementsAre("create configmaps/demo-0", "create services/demo",
                                           "create pods/demo-0-0", "create pods/demo-0-1"));
  EXPECT_EQ(outcome.created_versions.at(ChildKind::kPod), std::to_string(server.version()));
  EXPECT_EQ(outcome.created_versions.size(), 3U);
}

TEST(ApplyTest, TakesAnExistingObjectOfTheSameOwnerForDone) {
  FakeApiServer server;
  server.add("pods", object("demo-0-0", "job-uid"));
  const ApplyOutcome outcome = apply_in_order(server, demo(), create_pods(1));
  EXPECT_TRUE(outcome.result.has_value());
  EXPECT_TRUE(outcome.taken_names.empty());
  EXPECT_EQ(outcome.applied, 0);
}

TEST(ApplyTest, AConfigMapOfOursWithOtherContentsIsAConflict) {
  FakeApiServer server;
  json old = object("demo-0", "job-uid");
  old["data"] = {{"template.json", "{}"}};
  server.add("configmaps", old);
  json wanted = object("demo-0", "job-uid");
  wanted["data"] = {{"template.json", "{\"spec\":{}}"}};
  std::vector<plan::Action> actions = {plan::CreateConfigMap{"demo-0", wanted}};
  for (plan::Action& pod : create_pods(1)) actions.push_back(std::move(pod));
  const ApplyOutcome outcome = apply_in_order(server, demo(), actions);
  ASSERT_FALSE(outcome.result);
  EXPECT_EQ(outcome.result.error().code, ErrorCode::kConflict);
  EXPECT_TRUE(server.writes().empty()) << "no pod of the other template";
}

TEST(ApplyTest, ReportsANameThatAnotherOwnerHasAndStops) {
  FakeApiServer server;
  const json foreign = server.add("services", object("demo", ""));
  std::vector<plan::Action> actions = {plan::CreateService{"demo", object("demo", "job-uid")}};
  for (plan::Action& pod : create_pods(2)) actions.push_back(std::move(pod));
  const ApplyOutcome outcome = apply_in_order(server, demo(), actions);
  EXPECT_TRUE(outcome.result.has_value());
  ASSERT_EQ(outcome.taken_names.size(), 1U);
  EXPECT_EQ(outcome.taken_names[0].kind, ChildKind::kService);
  EXPECT_EQ(outcome.taken_names[0].object.uid, foreign["metadata"]["uid"]);
  EXPECT_TRUE(server.writes().empty());
}

TEST(ApplyTest, CallsAChildOfADeletedNamesakeAConflict) {
  FakeApiServer server;
  json old = object("demo-0-0", "uid-of-the-deleted-job");
  old["metadata"]["labels"] = {{"lockstep.dev/job-name", "demo"}};
  server.add("pods", old);
  const ApplyOutcome outcome = apply_in_order(server, demo(), create_pods(1));
  ASSERT_FALSE(outcome.result.has_value());
  EXPECT_EQ(outcome.result.error().code, ErrorCode::kConflict);
  EXPECT_TRUE(outcome.taken_names.empty()) << "the watch tells when it is gone";
}

TEST(ApplyTest, CallsAnObjectThatVanishedInBetweenAConflict) {
  FakeApiServer server;
  server.set_on_write(
      [](const std::string&) { return refusal(ErrorCode::kAlreadyExists, 409, "already exists"); });
  const ApplyOutcome outcome = apply_in_order(server, demo(), create_pods(1));
  ASSERT_FALSE(outcome.result.has_value());
  EXPECT_EQ(outcome.result.error().code, ErrorCode::kConflict);
  EXPECT_FALSE(is_ending(outcome.result.error()));
}

TEST(ApplyTest, StopsCreatingAfterTheFirstBatchWithAFailure) {
  FakeApiServer server;
  server.set_on_write([](const std::string& write) -> std::optional<kube::ApiError> {
    if (write == "create pods/demo-0-0") return std::nullopt;
    return refusal(ErrorCode::kPermissionDenied, 403, "exceeded quota");
  });
  const ApplyOutcome outcome = apply_in_order(server, demo(), create_pods(20));
  ASSERT_FALSE(outcome.result.has_value());
  EXPECT_EQ(outcome.result.error().message, "exceeded quota");
  EXPECT_THAT(server.writes(), ElementsAre("create pods/demo-0-0"));
  EXPECT_EQ(server.num_calls(), 3) << "batches of 1 and 2, and no more";
}

TEST(ApplyTest, CreatesAGangInBatchesThatDouble) {
  FakeApiServer server;
  const ApplyOutcome outcome = apply_in_order(server, demo(), create_pods(40));
  EXPECT_TRUE(outcome.result.has_value());
  EXPECT_EQ(outcome.applied, 40);
  EXPECT_EQ(server.objects("pods").size(), 40U);
}

// More batches than a size has bits.
TEST(ApplyTest, CreatesAGangOfTwoThousandPods) {
  FakeApiServer server;
  const ApplyOutcome outcome = apply_in_order(server, demo(), create_pods(2000));
  EXPECT_TRUE(outcome.result.has_value());
  EXPECT_EQ(outcome.applied, 2000);
}

TEST(ApplyTest, DeletesOnlyTheVeryObject) {
  FakeApiServer server;
  const json pod = server.add("pods", object("demo-0-0", "job-uid"));
  server.add("pods", object("demo-0-1", "job-uid"));
  const std::vector<plan::Action> actions = {
      plan::DeletePod{"demo-0-1", "uid-of-an-older-one", 1},  // 409: replaced meanwhile
      plan::DeletePod{"demo-0-2", "uid-of-what-is-gone", 1},  // 404
      plan::DeletePod{"demo-0-0", pod["metadata"]["uid"], 1}};
  const ApplyOutcome outcome = apply_in_order(server, demo(), actions);
  EXPECT_TRUE(outcome.result.has_value());
  EXPECT_EQ(outcome.applied, 1);
  EXPECT_THAT(server.writes(), ElementsAre("delete pods/demo-0-0"));
  EXPECT_EQ(server.objects("pods").size(), 1U);
}

TEST(IsEndingTest, TellsATerminatingNamespaceFromAQuota) {
  const auto forbidden = [](const char* why) {
    return common::Error{ErrorCode::kPermissionDenied, why, ""};
  };
  EXPECT_TRUE(
      is_ending(forbidden("pods \"a\" is forbidden: unable to create new content in "
                          "namespace x because it is being terminated")));
  EXPECT_FALSE(is_ending(forbidden("pods \"a\" is forbidden: exceeded quota: q")));
  EXPECT_TRUE(is_ending({ErrorCode::kNotFound, "namespaces \"x\" not found", ""}));
  EXPECT_FALSE(is_ending({ErrorCode::kUnavailable, "no answer", ""}));
}

TEST(ApplyTest, JobIsDeletedOnlyInTheVersionThatWasPlannedFor) {
  FakeApiServer server;
  const json stored = server.add("trainingjobs", object("demo", ""));
  const std::string uid = stored["metadata"]["uid"];
  const std::string version = stored["metadata"]["resourceVersion"];
  ApplyOutcome outcome = apply_in_order(server, demo(), {plan::DeleteJob{uid, "1"}});
  EXPECT_TRUE(outcome.result.has_value());
  EXPECT_EQ(outcome.applied, 0);
  EXPECT_TRUE(server.object("trainingjobs", {"team", "demo"}).has_value());
  outcome = apply_in_order(server, demo(), {plan::DeleteJob{uid, version}});
  EXPECT_EQ(outcome.applied, 1);
  EXPECT_FALSE(server.object("trainingjobs", {"team", "demo"}).has_value());
}

TEST(ApplyTest, ServersWishToBeLeftAloneIsHandedOn) {
  FakeApiServer server;
  server.set_on_write([](const std::string&) -> std::optional<kube::ApiError> {
    kube::ApiError error = refusal(ErrorCode::kUnavailable, 429, "too many requests");
    error.retry_after = std::chrono::seconds(9);
    return error;
  });
  const std::vector<plan::Action> actions = {plan::DeletePod{"demo-0-0", "u", 1}};
  EXPECT_EQ(apply_in_order(server, demo(), actions).retry_after, std::chrono::seconds(9));
}

TEST(WriteStatusTest, ReturnsTheNewVersion) {
  FakeApiServer server;
  const json stored = server.add("trainingjobs", object("demo", ""));
  api::TrainingJob job = demo();
  job.meta.uid = stored["metadata"]["uid"];
  job.meta.resource_version = stored["metadata"]["resourceVersion"];
  const kube::ApiResult<std::string> version = write_status(server, job, {.state = "Pending"});
  ASSERT_TRUE(std::holds_alternative<std::string>(version));
  EXPECT_EQ(std::get<std::string>(version), std::to_string(server.version()));
  EXPECT_EQ(server.object("trainingjobs", {"team", "demo"}).value()["status"]["state"], "Pending");
}

TEST(WriteStatusTest, IsAConflictOnAnOlderVersionOrAnotherUid) {
  FakeApiServer server;
  const json stored = server.add("trainingjobs", object("demo", ""));
  api::TrainingJob job = demo();
  job.meta.uid = stored["metadata"]["uid"];
  EXPECT_EQ(std::get<kube::ApiError>(write_status(server, job, {})).error.code,
            ErrorCode::kConflict);
  job.meta.resource_version = stored["metadata"]["resourceVersion"];
  job.meta.uid = "of-its-predecessor";
  EXPECT_EQ(std::get<kube::ApiError>(write_status(server, job, {})).error.code,
            ErrorCode::kConflict);
}

}  // namespace
}  // namespace lockstep::control
