#include "operator/cli/run_summary.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::cli {
namespace {

void write_finished(const std::string& path, const char* text) {
  std::ofstream(path) << text;
}

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

TEST(RunSummaryTest, PrintsWhereAStepsTimeWent) {
  const auto summary = summarize_metrics(
      R"({"step":1,"loss":5.5,"step_seconds":9,"data_seconds":9,"forward_seconds":9,"backward_seconds":9}
{"step":2,"loss":4.5,"step_seconds":0.4,"data_seconds":0.001,"forward_seconds":0.1,"backward_seconds":0.2,"communication_seconds":0.05,"optimizer_seconds":0.049}
{"step":3,"loss":3.5,"step_seconds":0.4,"data_seconds":0.001,"forward_seconds":0.1,"backward_seconds":0.2,"communication_seconds":0.05,"optimizer_seconds":0.049}
)");
  ASSERT_TRUE(summary.has_value());
  EXPECT_NE(render_summary(*summary, "/nonexistent")
                .find("\nstep        400 ms: data 0.2 %, forward 25.0 %, backward 50.0 %, "
                      "communication 12.5 %, optimizer 12.2 %\n"),
            std::string::npos)
      << render_summary(*summary, "/nonexistent");
}

TEST(RunSummaryTest, SaysNothingOfStepsWithoutTimes) {
  const auto summary = summarize_metrics("{\"step\":1,\"loss\":5.5,\"step_seconds\":0.5}\n");
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(render_summary(*summary, "/nonexistent").find("step      "), std::string::npos);
}

TEST(RunSummaryTest, SaysWhichStepTheModelIsOfUnlessItIsTheLast) {
  const runtime::TempFolder folder;
  std::filesystem::create_directory(folder / "model");
  const auto summary = summarize_metrics("{\"step\":1,\"loss\":5.5}\n");
  const std::string model = "model       " + (folder / "model");
  write_finished(folder / "finished.json", R"({"step":16,"exportedStep":10})");
  EXPECT_NE(render_summary(*summary, folder.path())
                .find(model + " (step 10: the lowest validation loss)\n"),
            std::string::npos);
  write_finished(folder / "finished.json", R"({"step":16,"exportedStep":16})");
  EXPECT_NE(render_summary(*summary, folder.path()).find(model + "\n"), std::string::npos);
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
