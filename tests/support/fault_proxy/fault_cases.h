// What an operator behind a fault proxy is to survive, and what that means: one table for the API
// server in memory (tests/operator/controller/network_fault_test.cc) and for a real one
// (tests/cluster/faults_test.cc). In both a job of two ranks, whose rank 1 fails in the first
// attempt and whose second attempt succeeds.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/fault_proxy/fault_proxy.h"

namespace lockstep::testing {

struct FaultCase {
  Fault fault = Fault::kNone;
  bool all_the_time = false;       // from before the job until its end, instead of for some seconds
  bool restarts_operator = false;  // right after the fault begins
};
std::string to_string(const FaultCase& one);

// Every fault. `with_history`: the server can list what was at an older version, so time travel is
// among them; the one in memory cannot.
std::vector<FaultCase> fault_cases(bool with_history);

// What a run came to.
struct FaultVerdict {
  nlohmann::json status;                              // of the job
  std::map<std::string, std::set<std::string>> pods;  // the UIDs that every name ever had
  std::set<std::string> expected_pods;                // names, of both attempts
  bool came_to_rest = false;  // nothing was written any more, some time after the job's end
  int64_t requests_in_fault = 0, hit = 0;
  double fault_seconds = 0;
};

// The job has succeeded in its second attempt, one restart was charged, every pod was made exactly
// once, the fault touched something, there was no hot loop, and a settled job is not written.
void expect_survived(const FaultCase& one, const FaultVerdict& verdict);

}  // namespace lockstep::testing
