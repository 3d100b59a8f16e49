#include "operator/cli/run_summary.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(RunSummaryTest, TakesFirstAndLastLossAndTheMedianSpeed) {
  const auto summary = summarize_metrics(
      R"({"step":1,"loss":5.5,"tokens_per_second":10}
{"step":2,"loss":4.5,"tokens_per_second":300}
{"step":3,"loss":3.25,"tokens_per_second":200}
)");
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->first_step, 1);
  EXPECT_EQ(summary->last_step, 3);
  EXPECT_EQ(summary->first_loss, 5.5);
  EXPECT_EQ(summary->last_loss, 3.25);
  EXPECT_EQ(summary->tokens_per_second, 200);
}

TEST(RunSummaryTest, IgnoresATornLastLine) {
  const auto summary = summarize_metrics("{\"step\":1,\"loss\":5.5}\n{\"step\":2,\"lo");
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->last_step, 1);
}

TEST(RunSummaryTest, LeavesOutSkippedSteps) {
  const auto summary = summarize_metrics(
      "{\"step\":1,\"loss\":null,\"skipped\":true}\n{\"step\":2,\"loss\":5.5}\n{\"step\":3,"
      "\"loss\":null}\n");
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->first_step, 2);
  EXPECT_EQ(summary->last_step, 2);
}

TEST(RunSummaryTest, HasNothingToSayOfAnEmptyFile) {
  EXPECT_FALSE(summarize_metrics("").has_value());
}

}  // namespace
}  // namespace lockstep::cli
