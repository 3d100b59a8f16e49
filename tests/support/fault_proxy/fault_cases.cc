#include "tests/support/fault_proxy/fault_cases.h"

#include <utility>

#include <gtest/gtest.h>

namespace lockstep::testing {

std::string to_string(const FaultCase& one) {
  return std::string(to_string(one.fault)) + (one.restarts_operator ? " (restarted)" : "");
}

std::vector<FaultCase> fault_cases(bool with_history) {
  std::vector<FaultCase> cases{
      {.fault = Fault::kNone, .all_the_time = true},
      {.fault = Fault::kLostResponses, .all_the_time = true},
      {.fault = Fault::kDelayedWatches, .all_the_time = true},
      {.fault = Fault::kCutWatches, .all_the_time = true},
      {.fault = Fault::kExpiredWatches},
      {.fault = Fault::kTooManyRequests},
      {.fault = Fault::kInternalError},
      {.fault = Fault::kUnavailable},
      {.fault = Fault::kRefused},
      {.fault = Fault::kHalfOpen},
      {.fault = Fault::kUnauthorized},
      {.fault = Fault::kForbidden},
  };
  if (with_history) {
    cases.push_back({.fault = Fault::kTimeTravel});
    cases.push_back({.fault = Fault::kTimeTravel, .restarts_operator = true});
  }
  return cases;
}

void expect_survived(const FaultCase& one, const FaultVerdict& verdict) {
  // Informers that back off from 0.8 s, a queue that backs off from 5 ms, watches of a second or
  // two: some 40 requests at first and 10 a second. A loop without a pause makes thousands.
  constexpr int64_t kMaxRequests = 200;
  constexpr double kMaxRequestsPerSecond = 40;
  SCOPED_TRACE(to_string(one));
  EXPECT_EQ(verdict.status.value("state", ""), "Succeeded") << verdict.status.dump(1);
  EXPECT_EQ(verdict.status.value("attempt", -1), 1);
  EXPECT_EQ(verdict.status.value("restarts", -1), 1);
  std::set<std::string> names;
  for (const auto& [name, uids] : verdict.pods) {
    names.insert(name);
    EXPECT_EQ(uids.size(), 1U) << name << " was made " << uids.size() << " times";
  }
  EXPECT_EQ(names, verdict.expected_pods);
  EXPECT_TRUE(verdict.came_to_rest) << "a settled job is written again and again";
  // Who is refused a connection meets nobody who counts.
  if (one.fault != Fault::kNone && one.fault != Fault::kRefused) {
    EXPECT_GT(verdict.hit, 0) << "the fault has touched nothing";
  }
  EXPECT_LE(verdict.requests_in_fault,
            kMaxRequests + static_cast<int64_t>(kMaxRequestsPerSecond * verdict.fault_seconds))
      << "a hot loop";
}

}  // namespace lockstep::testing
