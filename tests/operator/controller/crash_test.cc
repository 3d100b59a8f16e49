// The operator dies at every single write, before it is sent and after it was done: whoever follows
// it must end in the same state, with the same objects ever made and deleted.
#include <cstddef>
#include <functional>
#include <iostream>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/controller/operator_run.h"
#include "tests/support/instrumented.h"

namespace lockstep::control {
namespace {

// What somebody does once the job is in a state.
struct Deed {
  const char* state;
  std::function<void(FakeApiServer&)> act;
};

struct Scenario {
  const char* name;
  PodScript script;
  nlohmann::json spec = nlohmann::json::object();  // on top of the demo job's
  std::vector<Deed> deeds{};
  std::string user_deletes_after{};  // the write upon which the user deletes the job
  // What it comes to undisturbed; an empty state: the job is gone.
  const char* state = "Succeeded";
  int attempt = 0, restarts = 0;
  std::size_t num_created = 5;  // a Service; a ConfigMap and 3 pods for every attempt
};

std::string succeeds(const std::string&) {
  return "Succeeded";
}

std::string keeps_running(const std::string&) {
  return "Running";
}

// The first attempt runs until somebody stops it, any other succeeds.
std::string succeeds_later(const std::string& pod) {
  return pod.starts_with("demo-0-") ? "Running" : "Succeeded";
}

// Rank 1 of the first attempt fails while its peers run.
std::string fails_once(const std::string& pod) {
  return pod == "demo-0-1" ? "Failed" : succeeds_later(pod);
}

std::function<void(FakeApiServer&)> set_spec(const char* field, const nlohmann::json& value) {
  return [field, value](FakeApiServer& server) {
    server.edit("trainingjobs", kDemo, [&](nlohmann::json& job) {
      job["spec"][field] = value;
      job["metadata"]["generation"] = job["metadata"]["generation"].get<int>() + 1;
    });
  };
}

void evict_rank_1(FakeApiServer& server) {
  server.edit("pods", {"default", "demo-0-1"}, [](nlohmann::json& pod) {
    pod["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:30Z";
  });
}

void remove_node_of_rank_1(FakeApiServer& server) {
  server.erase("nodes", {"", "node-2"});
}

// Runs the scenario with the operator dying at `point`; true if it came to that.
bool run(const Scenario& scenario, CrashPoint point, EndState& end) {
  OperatorRun cluster(scenario.script);
  FakeApiServer& server = cluster.server();
  server.set_on_commit([&](const std::string& write) {
    if (write == scenario.user_deletes_after) server.erase("trainingjobs", kDemo);
  });
  nlohmann::json job = demo_job(3);
  job["spec"].update(scenario.spec);
  server.add("trainingjobs", job);
  cluster.start_operator();
  server.crash_at(point);
  for (const Deed& deed : scenario.deeds) {
    cluster.run_until([&](const nlohmann::json& now) {
      return now.contains("status") && now["status"].value("state", "") == deed.state;
    });
    deed.act(server);
  }
  cluster.run_to_rest();
  end = end_state(cluster);

  const auto at_rest = server.writes();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(cluster.reconcile().has_value());
  cluster.start_operator();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(cluster.reconcile().has_value());
  EXPECT_EQ(server.writes(), at_rest) << "a settled job is written";
  return cluster.num_crashes() > 0;
}

void expect_each_once(const std::multiset<std::string>& names) {
  for (const std::string& name : names) EXPECT_EQ(names.count(name), 1U) << name;
}

void expect_same(const Scenario& scenario, const EndState& end, const EndState& undisturbed) {
  EXPECT_EQ(end.status, undisturbed.status);
  EXPECT_EQ(end.left, undisturbed.left);
  expect_each_once(end.created);
  EXPECT_THAT(undisturbed.events, testing::IsSupersetOf(end.events));
  if (scenario.user_deletes_after.empty()) {
    EXPECT_EQ(end.created, undisturbed.created);
    EXPECT_EQ(end.deleted, undisturbed.deleted);
  } else {  // an operator that finds the job gone makes nothing more of it
    EXPECT_THAT(undisturbed.created, testing::IsSupersetOf(end.created));
  }
}

void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

class CrashTest : public testing::TestWithParam<Scenario> {};

TEST_P(CrashTest, EveryCrashPointEndsLikeAnUndisturbedRun) {
  EndState undisturbed;
  ASSERT_FALSE(run(GetParam(), {}, undisturbed));
  int num_points = 0;
  for (const bool after_commit : {false, true}) {
    for (int call = 1;; call += kSweepStride) {
      SCOPED_TRACE("write " + std::to_string(call) + (after_commit ? ", done" : ", not sent"));
      EndState end;
      if (!run(GetParam(), {call, after_commit}, end)) break;
      ++num_points;
      expect_same(GetParam(), end, undisturbed);
    }
  }
  std::cout << GetParam().name << ": " << num_points << " crash points, "
            << undisturbed.created.size() << " objects created, " << undisturbed.deleted.size()
            << " deleted\n";
  EXPECT_GE(num_points, 10 / kSweepStride);
}

TEST_P(CrashTest, UndisturbedRunEndsAsTheScenarioSays) {
  const Scenario& scenario = GetParam();
  EndState end;
  ASSERT_FALSE(run(scenario, {}, end));
  if (*scenario.state == '\0') {
    EXPECT_TRUE(end.status.is_null());
    EXPECT_TRUE(end.left.empty());
    return;
  }
  EXPECT_EQ(end.status["state"], scenario.state) << end.status.dump(1);
  EXPECT_EQ(end.status["attempt"], scenario.attempt);
  EXPECT_EQ(end.status["restarts"], scenario.restarts);
  EXPECT_EQ(end.created.size(), scenario.num_created);
}

std::vector<Scenario> scenarios() {
  return {
      {.name = "CreateAndSucceed", .script = succeeds},
      {.name = "RankFailureAndRestart",
       .script = fails_once,
       .attempt = 1,
       .restarts = 1,
       .num_created = 9},
      {.name = "DeleteInMidCreate",
       .script = succeeds,
       .user_deletes_after = "create pods/demo-0-0",
       .state = ""},
      {.name = "SuspendAndResume",
       .script = succeeds_later,
       .deeds = {{"Running", set_spec("suspend", true)}, {"Suspended", set_spec("suspend", false)}},
       .attempt = 1,
       .num_created = 9},
      {.name = "ScaleWhileRunning",
       .script = succeeds_later,
       .deeds = {{"Running", set_spec("ranks", 2)}},
       .attempt = 1,
       .num_created = 8},
      {.name = "Eviction",
       .script = succeeds_later,
       .deeds = {{"Running", evict_rank_1}},
       .attempt = 1,
       .num_created = 9},
      {.name = "NodeLoss",
       .script = succeeds_later,
       .deeds = {{"Running", remove_node_of_rank_1}},
       .attempt = 1,
       .num_created = 9},
      {.name = "DeadlineExceeded",
       .script = keeps_running,
       .spec = {{"activeDeadlineSeconds", 30}},
       .state = "Failed"},
      {.name = "RuleFails",
       .script = fails_once,
       .spec = {{"failurePolicy", {{"rules", {{{"exitCodes", {1}}, {"action", "Fail"}}}}}}},
       .state = "Failed"},
      {.name = "TimeToLive",
       .script = succeeds,
       .spec = {{"ttlSecondsAfterFinished", 30}},
       .state = ""},
      {.name = "CleanAllPods",
       .script = fails_once,
       .spec = {{"cleanPodPolicy", "All"}},
       .attempt = 1,
       .restarts = 1,
       .num_created = 9},
  };
}

INSTANTIATE_TEST_SUITE_P(Scenarios, CrashTest, testing::ValuesIn(scenarios()),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace lockstep::control
