#include "operator/plan/names.h"

#include <gtest/gtest.h>

#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

TEST(NamesTest, PodNameCarriesAttemptAndRank) {
  EXPECT_EQ(pod_name("demo", {.attempt = 3, .rank = 12}), "demo-3-12");
  EXPECT_EQ(config_map_name("demo", 3), "demo-3");
  EXPECT_EQ(service_name("demo"), "demo");
}

TEST(NamesTest, ParsingInvertsNaming) {
  for (const int64_t attempt : {0, 1, 41, 999999999}) {
    for (const int64_t rank : {0, 7, 4095}) {
      const PodIdentity identity = {.attempt = attempt, .rank = rank};
      EXPECT_EQ(parse_pod_name("a-1", pod_name("a-1", identity)), identity);
    }
    EXPECT_EQ(parse_config_map_name("a-1", config_map_name("a-1", attempt)), attempt);
  }
}

TEST(NamesTest, OtherNamesAreNotOurs) {
  for (const char* name :
       {"", "demo", "demo-", "demo-1", "demo-1-", "demo--1", "demo-1-2-3", "demo-x-1", "demo-1-x",
        "demo-01-1", "demo-1-00", "demo--1-2", "demo-1--2", "demo-+1-2", "demo-1-2 ", "demo2-1-2",
        "Demo-1-2", "demo-9999999999-0"}) {
    EXPECT_EQ(parse_pod_name("demo", name), std::nullopt) << name;
  }
  for (const char* name : {"", "demo", "demo-", "demo-1-2", "demo-x", "demo-00", "other-1"}) {
    EXPECT_EQ(parse_config_map_name("demo", name), std::nullopt) << name;
  }
}

TEST(NamesTest, JobsWithNamesOfChildrenDoNotClaimEachOthersPods) {
  // "demo" and "demo-1" may both exist in a namespace.
  EXPECT_EQ(parse_pod_name("demo", pod_name("demo-1", {.attempt = 0, .rank = 2})), std::nullopt);
  EXPECT_EQ(parse_pod_name("demo-1", pod_name("demo", {.attempt = 1, .rank = 0})), std::nullopt);
}

TEST(NamesTest, LongestNameFitsAHostName) {
  const std::string job(45, 'a');
  constexpr std::size_t kHostNameLimit = 63;
  EXPECT_LE(pod_name(job, {.attempt = 99999999, .rank = 4095}).size(), kHostNameLimit);
}

TEST(NamesTest, PodLabelsCarryTheIdentity) {
  const auto labels = pod_labels(command_job(2), {.attempt = 3, .rank = 1});
  EXPECT_EQ(labels.at("lockstep.dev/job-name"), "demo");
  EXPECT_EQ(labels.at("lockstep.dev/job-uid"), "job-uid");
  EXPECT_EQ(labels.at("lockstep.dev/attempt"), "3");
  EXPECT_EQ(labels.at("lockstep.dev/rank"), "1");
  EXPECT_EQ(labels.at("lockstep.dev/role"), "worker");
  EXPECT_EQ(labels.at("app.kubernetes.io/managed-by"), "lockstep-operator");
  EXPECT_EQ(pod_selector("demo"), "lockstep.dev/job-name=demo");
}

}  // namespace
}  // namespace lockstep::plan
