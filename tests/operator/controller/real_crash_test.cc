// The operator's process is killed at every single write of a job's life on a real API server,
// before the request is sent and after it was done but not answered; another one takes over. The
// job must end as undisturbed, with the same objects ever made and deleted, by name, as a watch
// sees them. Needs a process kubelet; LOCKSTEP_TEST_KUBECONFIG, LOCKSTEP_TEST_PODS (the kubelet's
// folder of pods) and LOCKSTEP_TEST_OPERATOR (the operator that dies). Run by the cluster tests:
// every third point of the scenarios of Short by `make test`, all of all by `make test-full`.
#include <algorithm>
#include <atomic>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/operator/controller/crash_life.h"

namespace lockstep::control {
namespace {

constexpr int kNumLanes = 4;  // crash points tried at once

class RealCrashTest : public testing::TestWithParam<Scenario> {};

TEST_P(RealCrashTest, EveryCrashPointEndsLikeAnUndisturbedRun) {
  const Scenario& scenario = GetParam();
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < kNumLanes; ++i) lanes.push_back(std::make_unique<Lane>());
  End undisturbed;
  ASSERT_FALSE(Life(*lanes[0], scenario, "calm").run(0, false, nullptr, undisturbed));
  EXPECT_EQ(undisturbed.status["state"], scenario.state);
  EXPECT_EQ(undisturbed.status["attempt"], scenario.attempt);
  EXPECT_EQ(undisturbed.status["restarts"], scenario.restarts);

  // Lanes take the next point until there are no more: the writes of a life differ by a few, as the
  // kubelet is faster or slower.
  std::atomic<int> next{0}, num_points{0};
  std::atomic<int> first_missed{1000};
  const auto try_points = [&](Lane& lane) {
    try {
      while (true) {
        const int point = case_stride() * next++;
        const int call = 1 + point / 2;
        const bool after = point % 2 == 1;
        if (call > first_missed + 2) return;
        End end;
        const std::string job =
            std::string("c").append(std::to_string(call)).append(after ? "a" : "b");
        SCOPED_TRACE(job);  // the write; before it is sent, or after it was done
        if (!Life(lane, scenario, job).run(call, after, &undisturbed.seen, end)) {
          first_missed = std::min<int>(first_missed, call);
        } else {
          ++num_points;
        }
        EXPECT_EQ(end.status, undisturbed.status);
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(lanes.size());
    for (auto& lane : lanes) threads.emplace_back([&try_points, &lane] { try_points(*lane); });
  }
  std::cout << scenario.name << ": " << num_points << " crash points on the real server, "
            << undisturbed.seen.created.size() << " objects created, "
            << undisturbed.seen.deleted.size() << " deleted\n";
  EXPECT_GE(num_points, 10 / case_stride());
}

// The first attempt runs until somebody stops it, the second succeeds.
constexpr const char* kSucceedsLater = "[ $LOCKSTEP_ATTEMPT = 1 ] || exec sleep 600";

std::vector<Scenario> short_scenarios() {
  return {{.name = "CreateAndSucceedWithTwoRanksInAPod",
           .script = "exit 0",
           .spec = {{"ranks", 6}, {"ranksPerPod", 2}}},
          {.name = "RankFailureAndRestart",
           .script = kSucceedsLater,
           .deeds = {{"Running", kill_rank_1}},
           .attempt = 1,
           .restarts = 1,
           .num_created = 9,
           .num_deleted = 3}};
}

std::vector<Scenario> long_scenarios() {
  return {{.name = "CreateAndSucceed", .script = "exit 0"},
          {.name = "NodeLoss",
           .script = kSucceedsLater,
           .deeds = {{"Running", lose_node_of_rank_1}},
           .has_doomed_node = true,
           .attempt = 1,
           .num_created = 9,
           .num_deleted = 4},
          {.name = "SuspendAndResume",
           .script = kSucceedsLater,
           .deeds = {{"Running", suspend}, {"Suspended", resume}},
           .attempt = 1,
           .num_created = 9,
           .num_deleted = 4},
          {.name = "ScaleWhileRunning",
           .script = kSucceedsLater,
           .deeds = {{"Running", scale_to_two}},
           .attempt = 1,
           .num_created = 8,
           .num_deleted = 4},
          {.name = "Eviction",
           .script = kSucceedsLater,
           .deeds = {{"Running", evict_rank_1}},
           .attempt = 1,
           .num_created = 9,
           .num_deleted = 4},
          {.name = "DeleteInMidCreate",
           .script = "exec sleep 600",
           .user_deletes = true,
           .state = "",
           .num_deleted = 5},
          {.name = "TimeToLive",
           .script = "exit 0",
           .spec = {{"ttlSecondsAfterFinished", 1}},
           .state = "",
           .num_deleted = 5}};
}

std::string name_of(const testing::TestParamInfo<Scenario>& scenario) {
  return scenario.param.name;
}

INSTANTIATE_TEST_SUITE_P(Short, RealCrashTest, testing::ValuesIn(short_scenarios()), name_of);
INSTANTIATE_TEST_SUITE_P(Long, RealCrashTest, testing::ValuesIn(long_scenarios()), name_of);

}  // namespace
}  // namespace lockstep::control
