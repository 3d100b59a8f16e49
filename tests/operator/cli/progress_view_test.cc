#include "operator/cli/progress_view.h"

#include <sstream>

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

common::JobProgress at_step(int64_t step) {
  common::JobProgress progress;
  progress.step = step;
  progress.total_steps = 100;
  progress.loss = "2.31471234";
  progress.tokens_per_second = 41200;
  progress.eta_seconds = 92;
  return progress;
}

TEST(ProgressViewTest, BarShowsShareStepLossSpeedAndEta) {
  EXPECT_EQ(render_bar(at_step(30), 10),
            "[###-------]  30/100  loss 2.3147  41.2k tok/s  eta 1m32s");
}

TEST(ProgressViewTest, BeforeTheFirstStepTheBarShowsThePhaseAndHowFarItIs) {
  common::JobProgress progress = at_step(0);
  progress.phase = "starting";
  EXPECT_EQ(render_bar(progress, 10), "[----------]  0/100  starting");
  progress.phase = "reference";
  progress.phase_progress = {.done = 12, .total = 40};
  EXPECT_EQ(render_bar(progress, 10), "[----------]  0/100  reference 12/40");
  progress.phase = "tokenizing";
  progress.phase_progress = {.done = 9000};
  EXPECT_EQ(render_bar(progress, 10), "[----------]  0/100  tokenizing 9000");
}

TEST(ProgressViewTest, LineKeepsAllDigitsOfTheLoss) {
  EXPECT_EQ(render_line(at_step(30)),
            "step=30 total_steps=100 loss=2.31471234 tokens_per_second=41200 eta_seconds=92");
}

TEST(ProgressViewTest, ShowsFlopsAndTheirShareOfThePeakWhereTheyAreKnown) {
  common::JobProgress progress = at_step(30);
  progress.flops_per_second = 25.6e9;
  EXPECT_NE(render_bar(progress, 10).find("41.2k tok/s  25.6 GFLOP/s  eta"), std::string::npos);
  EXPECT_NE(render_line(progress).find(" flops_per_second=25600000000 eta_"), std::string::npos);
  progress.flops_per_second = 1.25e12;
  progress.mfu = 0.5;
  EXPECT_NE(render_bar(progress, 10).find("  1.2 TFLOP/s (50 % MFU)  eta"), std::string::npos)
      << render_bar(progress, 10);
  EXPECT_NE(render_line(progress).find(" mfu=0.5 eta_"), std::string::npos);
}

TEST(ProgressViewTest, WithoutATerminalOneLinePerTwentiethOfTheRun) {
  std::ostringstream out;
  ProgressView view(out, false);
  for (int64_t step = 1; step <= 100; ++step) view.show(at_step(step));
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 20);
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(ProgressViewTest, ATerminalSeesTheCurveOfTheLoss) {
  std::ostringstream out;
  ProgressView view(out, true);
  common::JobProgress progress = at_step(0);
  for (int64_t step = 1; step <= 3; ++step) {
    progress.step = step;
    progress.loss = std::to_string(4 - step);
    view.show(progress);
    view.show(progress);  // the same step once more is no other point
  }
  const std::string curve = "\xE2\x96\x88\xE2\x96\x85\xE2\x96\x81";  // full, half, low
  EXPECT_NE(out.str().find("loss 1.0000 " + curve + "  41.2k tok/s"), std::string::npos)
      << out.str();
  for (int64_t step = 4; step <= 5000; ++step) {
    progress.step = step;
    view.show(progress);
  }
  const std::string last = out.str().substr(out.str().rfind('\r'));
  EXPECT_NE(last.find("loss 1.0000 \xE2\x96"), std::string::npos);
  EXPECT_LT(last.size(), 160U) << "however many steps there were";
}

TEST(ProgressViewTest, EventClearsTheBarOfATerminal) {
  std::ostringstream out;
  ProgressView view(out, true);
  view.show(at_step(1));
  view.show(plan::Event{true, "Restarting", "rank 1 failed"});
  EXPECT_NE(out.str().find("\r\033[Kwarning: Restarting: rank 1 failed\n"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli
