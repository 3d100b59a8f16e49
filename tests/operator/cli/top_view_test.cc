#include "operator/cli/top_view.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

runs::RunRecord some_run() {
  runs::RunRecord run;
  run.folder = "runs/first";
  run.last_step = 30;
  run.total_steps = 100;
  run.ranks = 2;
  run.series["loss"] = {{10, 5.5}, {20, 4.25}, {30, 3.5}};
  run.series["tokens_per_second"] = {{10, 900}, {20, 1000}, {30, 1100}};
  run.series["step_seconds"] = {{10, 0.5}, {20, 0.5}, {30, 0.5}};
  return run;
}

TEST(TopViewTest, ARunAtWorkHasSpeedAndAnEndInSight) {
  const TopRow row = row_of_run(some_run(), true);
  EXPECT_EQ(row.job.status.state, "Running");
  ASSERT_TRUE(row.job.status.progress);
  EXPECT_EQ(row.job.status.progress->tokens_per_second, 1100);
  EXPECT_EQ(row.job.status.progress->eta_seconds, 35);
  EXPECT_EQ(row.job.status.ranks.running, 2);
  EXPECT_EQ(row.losses, (std::vector<double>{5.5, 4.25, 3.5}));
  runs::RunRecord begun = some_run();
  begun.last_step = 0;
  EXPECT_EQ(row_of_run(begun, true).job.status.state, "Starting");
}

TEST(TopViewTest, ARunThatEndedSaysHow) {
  const std::pair<runs::RunEnd, const char*> ends[] = {{runs::RunEnd::kFinished, "Succeeded"},
                                                       {runs::RunEnd::kFailed, "Failed"},
                                                       {runs::RunEnd::kStopped, "Suspended"},
                                                       {runs::RunEnd::kUnfinished, "Killed"}};
  for (const auto& [end, state] : ends) {
    runs::RunRecord run = some_run();
    run.end = end;
    const TopRow row = row_of_run(run, false);
    EXPECT_EQ(row.job.status.state, state);
    EXPECT_EQ(row.job.status.progress->tokens_per_second, 0);
    EXPECT_FALSE(row.job.status.progress->eta_seconds);
  }
}

TEST(TopViewTest, TheTableHasRunsAndJobsAndWhyTheyFailed) {
  runs::RunRecord failed = some_run();
  failed.folder = "runs/second";
  failed.end = runs::RunEnd::kFailed;
  failed.failure = runs::RankExit{.rank = 1,
                                  .step = 30,
                                  .reason = "NonFinite",
                                  .message = "no number",
                                  .hint = "lower the rate"};
  TopRow job;
  job.job.meta.name = "team/big";
  job.job.status.state = "Running";
  api::ProgressStatus progress;
  progress.step = 5;
  progress.total_steps = 10;
  progress.loss = "2.5";
  progress.tokens_per_second = 400;
  job.job.status.progress = progress;
  const TopPage page{.rows = {row_of_run(some_run(), true), row_of_run(failed, false), job},
                     .troubles = {"the API server is away"}};
  const std::string text = render_top(page, {});
  EXPECT_THAT(text, HasSubstr("lockstep top: 3 jobs, 2 running, 1500 tokens/s\n\nNAME "));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nruns/first +Running +30/100 +3.5000 +1100 +35s "));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nteam/big +Running +5/10 +2.5000? +400 "));
  EXPECT_THAT(text, HasSubstr("\nruns/second: rank 1: NonFinite: no number (lower the rate)\n"));
  EXPECT_THAT(text, HasSubstr("\nthe API server is away\n"));
  EXPECT_THAT(text, Not(HasSubstr("LOSS CURVE")));
}

TEST(TopViewTest, AScreenIsNeverOverrun) {
  TopPage page;
  for (int i = 0; i < 50; ++i) page.rows.push_back(row_of_run(some_run(), true));
  const std::string text =
      render_top(page, {.width = 40, .height = 10, .has_curves = true, .now = {}});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    EXPECT_LE(text.find('\n', begin) - begin, 40U);
  }
}

TEST(TopViewTest, ACurveHasItsNewestValueAtTheRight) {
  EXPECT_EQ(sparkline({}, 8), "");
  EXPECT_EQ(sparkline({1, 1}, 8), "\xE2\x96\x81\xE2\x96\x81");
  EXPECT_EQ(sparkline({8, 1}, 8), "\xE2\x96\x88\xE2\x96\x81");
  EXPECT_EQ(sparkline({std::nan(""), 0, 7}, 8), "\xE2\x96\x81\xE2\x96\x88");
  EXPECT_EQ(sparkline({0, 0, 0, 7}, 2), "\xE2\x96\x81\xE2\x96\x88");
}

}  // namespace
}  // namespace lockstep::cli
