#include "operator/controller/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

struct Case {
  const char* name;
  Vitals vitals;
  const char* not_ready;  // what /readyz says; empty: ready
  const char* dead;       // what /healthz says; empty: alive
};

Vitals::Election seen(int64_t answer, int64_t turn) {
  return {.since_answer = seconds(answer), .since_turn = seconds(turn)};
}

const Case kCases[] = {
    {"alone", {.has_synced = true}, "", ""},
    {"starting", {}, "[-]stores are not complete", ""},
    {"stopping", {.has_synced = true, .is_stopping = true}, "[-]running no more", ""},
    {"leader or follower", {.has_synced = true, .election = seen(3, 1)}, "", ""},
    {"no rights on leases",
     {.has_synced = true, .election = Vitals::Election{}},
     "[-]lease has never been",
     ""},
    {"no server",
     {.has_synced = true, .election = seen(16, 6)},
     "[-]lease could not be read or written for 16 s",
     ""},
    {"election hangs",
     {.has_synced = true, .election = seen(76, 76)},
     "[-]lease",
     "[-]election is stuck for 76 s"},
    {"a long reconcile", {.has_synced = true, .longest_reconcile = seconds(900)}, "", ""},
    {"a worker hangs",
     {.has_synced = true, .longest_reconcile = seconds(901)},
     "",
     "[-]workers are stuck for 901 s"},
};

TEST(HealthTest, ReadinessAndLivenessSayWhatIsWrong) {
  for (const Case& one : kCases) {
    const Health ready = check_readiness(one.vitals);
    const Health alive = check_liveness(one.vitals);
    EXPECT_EQ(ready.ok, *one.not_ready == '\0') << one.name;
    EXPECT_EQ(alive.ok, *one.dead == '\0') << one.name;
    EXPECT_THAT(ready.text, HasSubstr(one.not_ready)) << one.name;
    EXPECT_THAT(alive.text, HasSubstr(one.dead)) << one.name;
    EXPECT_EQ(ready.ok, ready.text.find("[-]") == std::string::npos) << one.name;
    EXPECT_EQ(alive.ok, alive.text.find("[-]") == std::string::npos) << one.name;
  }
}

}  // namespace
}  // namespace lockstep::control
