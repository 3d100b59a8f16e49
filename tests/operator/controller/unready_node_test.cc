// A node that is not ready, with ranks on it that do not answer: the operator asks them, and acts.
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/operator/controller/operator_run.h"

namespace lockstep::control {
namespace {

using nlohmann::json;

TEST(UnreadyNodeTest, RanksOnItAreAskedAndIfTheyAreSilentTheGangStartsOver) {
  OperatorRun cluster([](const std::string&) { return "Running"; },
                      [](const ProgressTarget& target) -> common::Result<common::JobProgress> {
                        if (target.rank == 1)
                          return common::Error{common::ErrorCode::kUnavailable, "no answer"};
                        common::JobProgress progress;
                        progress.job = kDemo.name;
                        progress.step = 5;
                        progress.age_seconds = 0;
                        return progress;
                      });
  cluster.server().add("trainingjobs", demo_job(3));
  cluster.start_operator();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(cluster.settle());
    cluster.step_kubelet();
  }
  ASSERT_TRUE(cluster.settle());
  ASSERT_EQ(cluster.job()["status"]["ranks"]["running"], 3);

  cluster.server().edit("nodes", {"", "node-2"}, [](json& node) {
    node["status"]["conditions"][0]["status"] = "Unknown";  // its kubelet is not heard of
  });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < limit) {
    ASSERT_TRUE(cluster.settle());
    if (cluster.job()["status"]["attempt"] == 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(cluster.job()["status"]["attempt"], 1);
  EXPECT_EQ(cluster.job()["status"]["firstFailure"]["reason"], "NodeLost");
  EXPECT_EQ(cluster.job()["status"]["firstFailure"]["node"], "node-2");
  EXPECT_EQ(cluster.job()["status"]["restarts"], 0);
}

}  // namespace
}  // namespace lockstep::control
