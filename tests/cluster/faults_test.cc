// The operator behind a proxy that does what networks and servers do on bad days: a job whose rank
// fails once comes to its end all the same, with every pod made exactly once, without a hot loop,
// and without a write at rest. Needs LOCKSTEP_TEST_KUBECONFIG and a node that runs pods; run by the
// cluster tests only.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cluster/faulty_cluster.h"

namespace lockstep::testing {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kFaultLength{5};
constexpr seconds kRestLength{3};
// Informers that back off from 0.8 s, a queue that backs off from 5 ms, watches of 2 s: some 40
// requests at first and 10 a second. A loop without a pause makes thousands.
constexpr int64_t kMaxRequests = 200;
constexpr int64_t kMaxRequestsPerSecond = 40;

struct Case {
  Fault fault;
  bool all_the_time = false;  // from before the job until its end, instead of kFaultLength
  bool restarts = false;      // the operator, right after the fault begins
};

// What a run comes to.
struct Verdict {
  json status;
  std::map<std::string, std::set<std::string>> pods;  // the UIDs that every name ever had
  std::set<std::string> expected;                     // names of both attempts' pods
  int64_t requests_in_fault = 0, hit = 0;
  bool came_to_rest = false;
  double fault_seconds = 0;
  double seconds = 0;  // until the end of the job: after the fault, or with it
};

// The fault from the middle of making the first attempt on.
void disturb_the_beginning(const Case& c, FaultyCluster& cluster) {
  const std::string newer = c.fault == Fault::kUnauthorized ? cluster.new_token() : "";
  cluster.create_job();
  ASSERT_TRUE(cluster.await_writes(2));
  cluster.proxy().begin(c.fault, newer);
  std::this_thread::sleep_for(kFaultLength);
  if (!newer.empty()) cluster.rotate_token(newer);
  if (newer.empty()) cluster.proxy().end();  // the old token stays refused
}

// The fault once the second attempt is made, showing the first.
void travel_in_time(const Case& c, FaultyCluster& cluster) {
  cluster.create_job();
  ASSERT_TRUE(cluster.await_pods(cluster.gang(0)));
  const std::string past = cluster.version();
  ASSERT_TRUE(cluster.await_pods(cluster.gang(1)));
  cluster.proxy().begin(c.fault, past);
  if (c.restarts) cluster.restart_operator();
  std::this_thread::sleep_for(kFaultLength);
  cluster.proxy().end();
}

Verdict run(const Case& c, FaultyCluster& cluster) {
  using Clock = std::chrono::steady_clock;
  Verdict verdict;
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
  verdict.seconds = since(over);
  if (c.all_the_time) {
    verdict.fault_seconds = since(begin);
    verdict.requests_in_fault = cluster.proxy().counts().in_fault;
    cluster.proxy().end();
  }
  verdict.came_to_rest = cluster.comes_to_rest(kRestLength);
  verdict.hit = cluster.proxy().counts().hit;
  verdict.pods = cluster.pods_ever();
  verdict.expected = cluster.gang(0);
  verdict.expected.merge(cluster.gang(1));
  return verdict;
}

void expect_good(const Case& c, const Verdict& verdict) {
  SCOPED_TRACE(std::string(to_string(c.fault)) + (c.restarts ? ", operator restarted" : ""));
  EXPECT_EQ(verdict.status.value("state", ""), "Succeeded") << verdict.status.dump(1);
  EXPECT_EQ(verdict.status.value("attempt", -1), 1);
  EXPECT_EQ(verdict.status.value("restarts", -1), 1);
  std::set<std::string> names;
  for (const auto& [name, uids] : verdict.pods) {
    names.insert(name);
    EXPECT_EQ(uids.size(), 1U) << name << " was made " << uids.size() << " times";
  }
  EXPECT_EQ(names, verdict.expected);
  EXPECT_TRUE(verdict.came_to_rest) << "a settled job is written again and again";
  if (c.fault != Fault::kNone && c.fault != Fault::kRefused) {
    EXPECT_GT(verdict.hit, 0) << "the fault has touched nothing";
  }
  EXPECT_LE(verdict.requests_in_fault,
            kMaxRequests + kMaxRequestsPerSecond * static_cast<int64_t>(verdict.fault_seconds));
  std::printf("%-18s%s %3ld requests in the fault, %3ld hit, ended %.1f s after it\n",
              std::string(to_string(c.fault)).c_str(), c.restarts ? " (restarted)" : "",
              static_cast<long>(verdict.requests_in_fault), static_cast<long>(verdict.hit),
              verdict.seconds);
}

TEST(FaultsTest, AJobComesToItsEndWhateverTheFault) {
  const std::vector<Case> cases{
      {.fault = Fault::kNone, .all_the_time = true},
      {.fault = Fault::kLostResponses, .all_the_time = true},
      {.fault = Fault::kDelayedWatches, .all_the_time = true},
      {.fault = Fault::kCutWatches, .all_the_time = true},
      {.fault = Fault::kTimeTravel},
      {.fault = Fault::kTimeTravel, .restarts = true},
      {.fault = Fault::kExpiredWatches},
      {.fault = Fault::kTooManyRequests},
      {.fault = Fault::kInternalError},
      {.fault = Fault::kUnavailable},
      {.fault = Fault::kRefused},
      {.fault = Fault::kHalfOpen},
      {.fault = Fault::kUnauthorized},
      {.fault = Fault::kForbidden},
  };
  // Side by side: they wait most of the time.
  std::vector<std::optional<Verdict>> verdicts(cases.size());
  {
    std::vector<std::jthread> runs;
    runs.reserve(cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      runs.emplace_back([&, i] {
        try {
          FaultyCluster cluster("fault" + std::to_string(i), /*seed=*/i + 1);
          verdicts[i] = run(cases[i], cluster);
        } catch (const std::exception& error) {
          ADD_FAILURE() << to_string(cases[i].fault) << ": " << error.what();
        }
      });
    }
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (verdicts[i]) expect_good(cases[i], *verdicts[i]);
  }
}

}  // namespace
}  // namespace lockstep::testing
