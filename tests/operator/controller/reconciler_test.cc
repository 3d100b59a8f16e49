#include "operator/controller/reconciler.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/controller/operator_run.h"

namespace lockstep::control {
namespace {

using common::ErrorCode;
using nlohmann::json;
using testing::Contains;
using testing::Not;
using testing::UnorderedElementsAre;

std::string succeeds(const std::string&) {
  return "Succeeded";
}

std::string keeps_running(const std::string&) {
  return "Running";
}

int64_t count(const std::vector<std::string>& writes, const std::string& write) {
  return std::count(writes.begin(), writes.end(), write);
}

TEST(ReconcilerTest, TakesAJobOfThreeRanksToItsEnd) {
  OperatorRun cluster(succeeds);
  cluster.server().add("trainingjobs", demo_job(3));
  cluster.start_operator();
  cluster.run_to_rest();
  const json status = cluster.job()["status"];
  EXPECT_EQ(status["state"], "Succeeded");
  EXPECT_EQ(status["ranks"]["succeeded"], 3);
  const EndState end = end_state(cluster);
  EXPECT_THAT(end.created, UnorderedElementsAre("configmaps/demo-0", "services/demo",
                                                "pods/demo-0-0", "pods/demo-0-1", "pods/demo-0-2"));
  EXPECT_TRUE(end.deleted.empty());
  EXPECT_THAT(end.events, UnorderedElementsAre("events/Running", "events/Succeeded"));
}

TEST(ReconcilerTest, MakesNoCallForASettledJob) {
  OperatorRun cluster(succeeds);
  cluster.server().add("trainingjobs", demo_job(3));
  cluster.start_operator();
  cluster.run_to_rest();
  const int calls = cluster.server().num_calls();
  for (int i = 0; i < 10; ++i) {
    const common::Result<Outcome> outcome = cluster.reconcile();
    ASSERT_TRUE(outcome.has_value());
    EXPECT_FALSE(outcome->requeue_after.has_value());
  }
  EXPECT_EQ(cluster.server().num_calls(), calls);
}

TEST(ReconcilerTest, MakesNoCallForAJobThatRunsWithoutNews) {
  OperatorRun cluster(keeps_running);
  cluster.server().add("trainingjobs", demo_job(3));
  cluster.start_operator();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(cluster.settle());
    cluster.step_kubelet();
  }
  ASSERT_TRUE(cluster.settle());
  ASSERT_EQ(cluster.job()["status"]["state"], "Running");
  const int calls = cluster.server().num_calls();
  for (int i = 0; i < 10; ++i) {
    cluster.advance(std::chrono::minutes(1));
    ASSERT_TRUE(cluster.reconcile().has_value());
  }
  EXPECT_EQ(cluster.server().num_calls(), calls);
}

TEST(ReconcilerTest, WritesTheProgressOfAStepThatStandsOnce) {
  OperatorRun cluster(keeps_running, [](const ProgressTarget&) {
    common::JobProgress progress;
    progress.job = kDemo.name;
    progress.phase = "training";
    progress.strategy = "zero3";
    progress.step = 5;
    progress.total_steps = 10;
    progress.loss = "2.5000";
    return progress;
  });
  cluster.server().add("trainingjobs", demo_job(3));
  cluster.start_operator();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(cluster.settle());
    cluster.step_kubelet();
  }
  ASSERT_TRUE(cluster.settle());
  cluster.await_progress();
  ASSERT_TRUE(cluster.settle());
  EXPECT_EQ(cluster.job()["status"]["progress"]["step"], 5);
  EXPECT_EQ(cluster.job()["status"]["progress"]["loss"], "2.5000");
  EXPECT_EQ(cluster.job()["status"]["strategy"], "zero3");
  const auto writes = cluster.server().writes();
  for (int i = 0; i < 10; ++i) {
    cluster.advance(std::chrono::minutes(1));
    ASSERT_TRUE(cluster.reconcile().has_value());
  }
  EXPECT_EQ(cluster.server().writes(), writes);
}

TEST(ReconcilerTest, LetsAQueueKnowOnceThatTheGroupOfAJobThatIsGoneIsOver) {
  OperatorRun cluster(keeps_running);
  json job = demo_job(3);
  job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team";
  cluster.server().add("trainingjobs", job);
  cluster.start_operator();
  ASSERT_TRUE(cluster.settle());
  const auto edit_gang = [&cluster](const std::function<void(json&)>& change) {
    for (const char* pod : {"demo-0-0", "demo-0-1", "demo-0-2"}) {
      cluster.server().edit("pods", {kDemo.ns, pod}, change);
    }
  };
  edit_gang([](json& pod) { pod["metadata"]["finalizers"] = {"kueue.x-k8s.io/managed"}; });
  cluster.server().erase("trainingjobs", kDemo);
  const std::size_t num_before = cluster.server().writes().size();
  ASSERT_TRUE(cluster.reconcile().has_value());
  EXPECT_EQ(cluster.server().writes().size(), num_before) << "the job may only not be seen yet";

  edit_gang([](json& pod) { pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"; });
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cluster.reconcile().has_value());
  const std::vector<std::string> writes = cluster.server().writes();
  EXPECT_EQ(
      std::vector<std::string>(writes.begin() + static_cast<int64_t>(num_before), writes.end()),
      std::vector<std::string>{"patch pods/demo-0-0"});
}

TEST(ReconcilerTest, DecidesNothingUntilItsOwnPodsHaveBeenSeen) {
  OperatorRun cluster(succeeds);
  FakeApiServer& server = cluster.server();
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  ASSERT_TRUE(cluster.reconcile().has_value());  // records the attempt
  server.hold("pods");
  ASSERT_TRUE(cluster.reconcile().has_value());  // creates the gang
  ASSERT_EQ(server.objects("pods").size(), 3U);
  server.edit("trainingjobs", kDemo, [](json& job) { job["spec"]["suspend"] = true; });
  const int calls = server.num_calls();
  const common::Result<Outcome> outcome = cluster.reconcile();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->requeue_after.has_value());
  EXPECT_EQ(server.num_calls(), calls) << "without its pods the job looks suspended already";
  server.release("pods");
  ASSERT_TRUE(cluster.settle());
  EXPECT_EQ(count(server.writes(), "delete pods/demo-0-0"), 1);
}

TEST(ReconcilerTest, DecidesNothingUntilItsOwnStatusHasBeenSeen) {
  OperatorRun cluster(succeeds);
  FakeApiServer& server = cluster.server();
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  server.hold("trainingjobs");
  ASSERT_TRUE(cluster.reconcile().has_value());
  const int calls = server.num_calls();
  const common::Result<Outcome> outcome = cluster.reconcile();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->requeue_after.has_value());
  EXPECT_EQ(server.num_calls(), calls);
  server.release("trainingjobs");
  cluster.run_to_rest();
  EXPECT_EQ(cluster.job()["status"]["state"], "Succeeded");
}

TEST(ReconcilerTest, StopsWaitingForOwnWritesThatAServerFromABackupNeverTells) {
  OperatorRun cluster(succeeds);
  FakeApiServer& server = cluster.server();
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  ASSERT_TRUE(cluster.reconcile().has_value());
  server.hold("pods");
  ASSERT_TRUE(cluster.reconcile().has_value());
  cluster.advance(std::chrono::minutes(6));
  const int calls = server.num_calls();
  ASSERT_TRUE(cluster.reconcile().has_value());
  EXPECT_GT(server.num_calls(), calls);
  EXPECT_EQ(server.objects("pods").size(), 3U) << "the names keep it from doubling anything";
}

TEST(ReconcilerTest, PlansAgainWhenTheJobChangedUnderItsStatus) {
  OperatorRun cluster(succeeds);
  FakeApiServer& server = cluster.server();
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  server.hold("trainingjobs");
  server.edit("trainingjobs", kDemo, [](json& job) { job["metadata"]["labels"]["a"] = "b"; });
  const common::Result<Outcome> outcome = cluster.reconcile();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kConflict);
  EXPECT_TRUE(server.writes().empty()) << "no event about a status that was not written";
  server.release("trainingjobs");
  cluster.run_to_rest();
  EXPECT_EQ(cluster.job()["status"]["state"], "Succeeded");
}

TEST(ReconcilerTest, SaysOnceThatANameIsTakenAndGoesOnWhenItIsFree) {
  OperatorRun cluster(succeeds);
  FakeApiServer& server = cluster.server();
  server.add("services", {{"metadata", {{"name", "demo"}, {"namespace", "default"}}}});
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(cluster.settle());
    cluster.advance(std::chrono::seconds(30));
  }
  EXPECT_THAT(cluster.job()["status"]["message"].get<std::string>(),
              testing::HasSubstr("another object has the name demo"));
  EXPECT_EQ(count(server.writes(), "create events/NameTaken"), 1);
  EXPECT_TRUE(server.objects("pods").empty());
  EXPECT_TRUE(server.object("services", {"default", "demo"}).has_value());
  const auto writes = server.writes();
  ASSERT_TRUE(cluster.settle());
  EXPECT_EQ(server.writes(), writes) << "nothing is written while the name stays taken";
}

TEST(ReconcilerTest, ANewJobOfTheSameNameWaitsForItsPredecessorsPodsAndThenRuns) {
  OperatorRun cluster(keeps_running);
  FakeApiServer& server = cluster.server();
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(cluster.settle());
    cluster.step_kubelet();
  }
  const std::string old_uid = cluster.job()["metadata"]["uid"];
  server.erase("trainingjobs", kDemo);
  server.add("trainingjobs", demo_job(3));
  ASSERT_TRUE(cluster.settle());
  EXPECT_THAT(server.writes(), Not(Contains(testing::StartsWith("delete "))));
  server.collect_garbage();
  ASSERT_TRUE(cluster.settle());
  ASSERT_EQ(server.objects("pods").size(), 3U);
  for (const json& pod : server.objects("pods")) {
    EXPECT_NE(pod["metadata"]["ownerReferences"][0]["uid"], old_uid);
  }
}

TEST(ReconcilerTest, StopsInANamespaceThatIsBeingDeleted) {
  OperatorRun cluster(succeeds);
  FakeApiServer& server = cluster.server();
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  ASSERT_TRUE(cluster.reconcile().has_value());
  server.set_on_write([](const std::string& write) -> std::optional<kube::ApiError> {
    if (!write.starts_with("create ")) return std::nullopt;
    return refusal(ErrorCode::kPermissionDenied, 403,
                   "unable to create new content in namespace default because it is being "
                   "terminated");
  });
  for (int i = 0; i < 2; ++i) {
    const common::Result<Outcome> outcome = cluster.reconcile();
    ASSERT_TRUE(outcome.has_value()) << "an error would be retried";
    EXPECT_FALSE(outcome->requeue_after.has_value());
  }
}

TEST(ReconcilerTest, SaysInTheStatusOnceThatAQuotaRefusesItsPods) {
  OperatorRun cluster(succeeds);
  FakeApiServer& server = cluster.server();
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  ASSERT_TRUE(cluster.reconcile().has_value());
  server.set_on_write([](const std::string& write) -> std::optional<kube::ApiError> {
    if (!write.starts_with("create pods/")) return std::nullopt;
    return refusal(ErrorCode::kPermissionDenied, 403, "pods is forbidden: exceeded quota: gpus");
  });
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(cluster.reconcile().has_value()) << "tried again later";
  const json status = cluster.job()["status"];
  EXPECT_EQ(status["message"], "pods is forbidden: exceeded quota: gpus");
  const auto scheduled =
      std::find_if(status["conditions"].begin(), status["conditions"].end(),
                   [](const json& condition) { return condition["type"] == "Scheduled"; });
  ASSERT_NE(scheduled, status["conditions"].end());
  EXPECT_EQ((*scheduled)["status"], "False");
  EXPECT_EQ((*scheduled)["reason"], "CreationRefused");
  EXPECT_EQ((*scheduled)["message"], "pods is forbidden: exceeded quota: gpus");
  EXPECT_EQ(count(server.writes(), "create events/CreationRefused"), 1);
  EXPECT_EQ(count(server.writes(), "status trainingjobs/demo"), 2)
      << "the attempt, and the refusal";
  server.set_on_write(nullptr);
  cluster.run_to_rest();
  EXPECT_EQ(cluster.job()["status"]["state"], "Succeeded");
}

TEST(ReconcilerTest, ComesAgainWhenAServerThatIsOverloadedSaysSo) {
  for (const char* refused : {"create pods/", "status ", "create configmaps/"}) {
    OperatorRun cluster(succeeds);
    FakeApiServer& server = cluster.server();
    server.add("trainingjobs", demo_job(3));
    cluster.start_operator();
    server.set_on_write([&](const std::string& write) -> std::optional<kube::ApiError> {
      if (!write.starts_with(refused)) return std::nullopt;
      kube::ApiError error = refusal(ErrorCode::kUnavailable, 429, "too many requests");
      error.retry_after = std::chrono::seconds(17);
      return error;
    });
    common::Result<Outcome> outcome = cluster.reconcile();
    if (outcome && outcome->requeue_after < std::chrono::seconds(17)) outcome = cluster.reconcile();
    ASSERT_TRUE(outcome.has_value()) << refused << ": an error would come again too soon";
    EXPECT_EQ(outcome->requeue_after, std::chrono::seconds(17)) << refused;
    server.set_on_write(nullptr);
    cluster.run_to_rest();
    EXPECT_EQ(cluster.job()["status"]["state"], "Succeeded") << refused;
  }
}

TEST(ReconcilerTest, DeletesAJobAfterItsTimeToLiveUnlessItChangedMeanwhile) {
  OperatorRun cluster(succeeds);
  FakeApiServer& server = cluster.server();
  json job = demo_job(3);
  job["spec"]["ttlSecondsAfterFinished"] = 100;
  server.add("trainingjobs", job);
  cluster.start_operator();
  cluster.run_until([](const json& now) {
    return now.contains("status") && now["status"].value("state", "") == "Succeeded";
  });
  cluster.advance(std::chrono::seconds(100));
  server.hold("trainingjobs");
  server.edit("trainingjobs", kDemo, [](json& now) { now["metadata"]["labels"]["keep"] = "me"; });
  ASSERT_TRUE(cluster.reconcile().has_value());
  EXPECT_FALSE(cluster.job().is_null()) << "it was not the job that the plan was made for";
  server.release("trainingjobs");
  ASSERT_TRUE(cluster.settle());
  EXPECT_TRUE(cluster.job().is_null());
}

TEST(ReconcilerTest, LeavesAJobThatAnotherControllerManagesAlone) {
  OperatorRun cluster(succeeds);
  json job = demo_job(3);
  job["spec"]["managedBy"] = "example.com/other";
  cluster.server().add("trainingjobs", job);
  cluster.start_operator();
  cluster.run_to_rest();
  EXPECT_TRUE(cluster.server().writes().empty());
}

TEST(ReconcilerTest, PodOnANodeThatIsNotThereYetIsNotLost) {
  OperatorRun cluster(keeps_running);
  FakeApiServer& server = cluster.server();
  server.add("trainingjobs", demo_job(3));
  server.hold("nodes");
  cluster.start_operator();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(cluster.settle());
    cluster.step_kubelet();
  }
  const json ready = {{"type", "Ready"}, {"status", "True"}};
  server.add("nodes", {{"metadata", {{"name", "node-9"}, {"namespace", ""}}},
                       {"status", {{"conditions", json::array({ready})}}}});
  server.edit("pods", {"default", "demo-0-2"},
              [](json& pod) { pod["spec"]["nodeName"] = "node-9"; });
  ASSERT_TRUE(cluster.settle());
  EXPECT_EQ(cluster.job()["status"]["attempt"], 0);
  server.release("nodes");
  ASSERT_TRUE(cluster.settle());
  EXPECT_EQ(cluster.job()["status"]["attempt"], 0);
  server.erase("nodes", {"", "node-9"});
  ASSERT_TRUE(cluster.settle());
  EXPECT_EQ(cluster.job()["status"]["attempt"], 1);
  EXPECT_EQ(cluster.job()["status"]["firstFailure"]["reason"], "NodeLost");
  EXPECT_EQ(cluster.job()["status"]["restarts"], 0);
  EXPECT_FALSE(server.object("pods", {"default", "demo-0-2"}).has_value()) << "forced";
}

TEST(ReconcilerTest, StopsWhenTheJobIsGoneBeforeTheWatchTellsIt) {
  OperatorRun cluster(succeeds);
  FakeApiServer& server = cluster.server();
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  server.hold("trainingjobs");
  server.erase("trainingjobs", kDemo);
  const common::Result<Outcome> outcome = cluster.reconcile();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_FALSE(outcome->requeue_after.has_value());
  EXPECT_TRUE(server.writes().empty());
}

TEST(ReconcilerTest, RefusesABadSpecInTheStatusAndCreatesNothing) {
  OperatorRun cluster(succeeds);
  json job = demo_job(3);
  job["spec"]["train"]["batch"]["globalBatchSize"] = 13;  // not divisible among 3 ranks
  cluster.server().add("trainingjobs", job);
  cluster.start_operator();
  cluster.run_to_rest();
  const json status = cluster.job()["status"];
  EXPECT_EQ(status["state"], "Invalid");
  EXPECT_THAT(status["message"].get<std::string>(), testing::HasSubstr("globalBatchSize"));
  EXPECT_TRUE(end_state(cluster).created.empty());
}

}  // namespace
}  // namespace lockstep::control
