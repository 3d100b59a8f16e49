// The operator behind a proxy that does what networks and servers do on bad days: a job whose rank
// fails once comes to its end all the same, with every pod made exactly once, without a hot loop,
// and without a write at rest. Needs LOCKSTEP_TEST_KUBECONFIG and a node that runs pods; run by the
// cluster tests only.
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cluster/faulty_cluster.h"
#include "tests/support/fault_proxy/fault_cases.h"

namespace lockstep::testing {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr seconds kFaultLength{5};
constexpr seconds kRestLength{3};

// The fault from the middle of making the first attempt on.
void disturb_the_beginning(const FaultCase& c, FaultyCluster& cluster) {
  const std::string newer = c.fault == Fault::kUnauthorized ? cluster.new_token() : "";
  cluster.create_job();
  ASSERT_TRUE(cluster.await_writes(2));
  cluster.proxy().begin(c.fault, newer);
  std::this_thread::sleep_for(kFaultLength);
  if (!newer.empty()) cluster.rotate_token(newer);
  if (newer.empty()) cluster.proxy().end();  // the old token stays refused
}

// The fault once the second attempt is made, showing the first.
void travel_in_time(const FaultCase& c, FaultyCluster& cluster) {
  cluster.create_job();
  ASSERT_TRUE(cluster.await_pods(cluster.gang(0)));
  const std::string past = cluster.version();
  ASSERT_TRUE(cluster.await_pods(cluster.gang(1)));
  cluster.proxy().begin(c.fault, past);
  if (c.restarts_operator) cluster.restart_operator();
  std::this_thread::sleep_for(kFaultLength);
  cluster.proxy().end();
}

FaultVerdict run(const FaultCase& c, FaultyCluster& cluster) {
  using Clock = std::chrono::steady_clock;
  FaultVerdict verdict;
  cluster.start_operator();
  const Clock::time_point begin = Clock::now();
  if (c.all_the_time) {
    cluster.proxy().begin(c.fault);
    cluster.create_job();
  } else if (c.fault == Fault::kTimeTravel) {
    travel_in_time(c, cluster);
  } else {
    disturb_the_beginning(c, cluster);
  }
  const auto since = [](Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  };
  const Clock::time_point over = Clock::now();
  verdict.fault_seconds = since(begin);
  verdict.requests_in_fault = cluster.proxy().counts().in_fault;
  verdict.status = cluster.await_end();
  const double seconds_after = since(over);
  if (c.all_the_time) {
    verdict.fault_seconds = since(begin);
    verdict.requests_in_fault = cluster.proxy().counts().in_fault;
    cluster.proxy().end();
  }
  verdict.came_to_rest = cluster.comes_to_rest(kRestLength);
  verdict.hit = cluster.proxy().counts().hit;
  verdict.pods = cluster.pods_ever();
  verdict.expected_pods = cluster.gang(0);
  verdict.expected_pods.merge(cluster.gang(1));
  std::printf("%-29s %3ld requests in the fault, %3ld hit, ended %.1f s after it\n",
              to_string(c).c_str(), static_cast<long>(verdict.requests_in_fault),
              static_cast<long>(verdict.hit), seconds_after);
  return verdict;
}

TEST(FaultsTest, AJobComesToItsEndWhateverTheFault) {
  const std::vector<FaultCase> cases = fault_cases(/*with_history=*/true);
  // Side by side: they wait most of the time.
  std::vector<std::optional<FaultVerdict>> verdicts(cases.size());
  {
    std::vector<std::jthread> runs;
    runs.reserve(cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      runs.emplace_back([&, i] {
        try {
          FaultyCluster cluster("fault" + std::to_string(i), /*seed=*/i + 1);
          verdicts[i] = run(cases[i], cluster);
        } catch (const std::exception& error) {
          ADD_FAILURE() << to_string(cases[i]) << ": " << error.what();
        }
      });
    }
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (verdicts[i]) expect_survived(cases[i], *verdicts[i]);
  }
}

}  // namespace
}  // namespace lockstep::testing
