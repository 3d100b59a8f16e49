// The operator dies at every single write, before it is sent and after it was done: whoever follows
// it must end in the same state, with the same objects ever made and deleted.
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/controller/operator_run.h"

namespace lockstep::control {
namespace {

struct Scenario {
  const char* name;
  PodScript script;
  std::string user_deletes_after;  // the write upon which the user deletes the job; empty = never
};

std::string succeeds(const std::string&) {
  return "Succeeded";
}

// Rank 1 of the first attempt fails while its peers run.
std::string fails_once(const std::string& pod) {
  if (pod == "demo-0-1") return "Failed";
  return pod.starts_with("demo-0-") ? "Running" : "Succeeded";
}

// Runs the scenario with the operator dying at `point`; true if it came to that.
bool run(const Scenario& scenario, CrashPoint point, EndState& end) {
  OperatorRun cluster(scenario.script);
  FakeApiServer& server = cluster.server();
  server.set_on_commit([&](const std::string& write) {
    if (write == scenario.user_deletes_after) server.erase("trainingjobs", kDemo);
  });
  server.add("trainingjobs", demo_job(3));
  cluster.start_operator();
  server.crash_at(point);
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

class CrashTest : public testing::TestWithParam<Scenario> {};

TEST_P(CrashTest, EveryCrashPointEndsLikeAnUndisturbedRun) {
  EndState undisturbed;
  ASSERT_FALSE(run(GetParam(), {}, undisturbed));
  int num_points = 0;
  for (const bool after_commit : {false, true}) {
    for (int call = 1;; ++call) {
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
  EXPECT_GE(num_points, 10);
}

TEST_P(CrashTest, UndisturbedRunEndsAsTheScenarioSays) {
  EndState end;
  ASSERT_FALSE(run(GetParam(), {}, end));
  if (!GetParam().user_deletes_after.empty()) {
    EXPECT_TRUE(end.status.is_null());
    EXPECT_TRUE(end.left.empty());
    return;
  }
  EXPECT_EQ(end.status["state"], "Succeeded");
  const bool restarts = GetParam().script("demo-0-1") == "Failed";
  EXPECT_EQ(end.status["attempt"], restarts ? 1 : 0);
  EXPECT_EQ(end.status["restarts"], restarts ? 1 : 0);
  EXPECT_EQ(end.status["ranks"]["succeeded"], 3);
  EXPECT_EQ(end.created.size(), restarts ? 9U : 5U);  // a Service; a ConfigMap and 3 pods each time
}

INSTANTIATE_TEST_SUITE_P(Scenarios, CrashTest,
                         testing::Values(Scenario{"CreateAndSucceed", succeeds, ""},
                                         Scenario{"RankFailureAndRestart", fails_once, ""},
                                         Scenario{"DeleteInMidCreate", succeeds,
                                                  "create pods/demo-0-0"}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace lockstep::control
