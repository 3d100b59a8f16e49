// Whom the operator asks where a pod holds several ranks.
#include <chrono>
#include <mutex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/operator/controller/operator_run.h"

namespace lockstep::control {
namespace {

using nlohmann::json;

std::string keeps_running(const std::string&) {
  return "Running";
}

TEST(RanksPerPodTest, AsksEveryRankOfAPodThatHoldsSeveral) {
  std::mutex mutex;
  std::set<std::string> asked;
  OperatorRun cluster(keeps_running, [&](const ProgressTarget& target) {
    const std::lock_guard lock(mutex);
    asked.insert(std::to_string(target.rank) + " at " + target.path);
    common::JobProgress progress;
    progress.job = kDemo.name;
    progress.rank = static_cast<int>(target.rank);
    return progress;
  });
  json job = demo_job(4);
  job["spec"]["ranksPerPod"] = 2;
  job["spec"]["failurePolicy"]["stallTimeoutSeconds"] = 1;  // asks all from the start
  cluster.server().add("trainingjobs", job);
  cluster.start_operator();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(cluster.settle());
    cluster.step_kubelet();
  }
  const std::set<std::string> all = {"0 at /status/0", "1 at /status/1", "2 at /status/2",
                                     "3 at /status/3"};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < limit) {
    ASSERT_TRUE(cluster.settle());
    const std::lock_guard lock(mutex);
    if (asked == all) break;
  }
  const std::lock_guard lock(mutex);
  EXPECT_EQ(asked, all);
}

}  // namespace
}  // namespace lockstep::control
