// A run and its server, with every way in which the one may miss the other.
#include "runtime/tracking/mlflow_run.h"

#include <chrono>
#include <fstream>
#include <memory>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/common/text_file.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/support/instrumented.h"
#include "tests/support/mlflow_server/mlflow_server.h"

namespace lockstep::runtime {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::IsEmpty;

class MlflowRunTest : public testing::Test {
 protected:
  MlflowRunTest() { prepare(0); }

  void prepare(int64_t attempt) {
    EXPECT_TRUE(prepare_output(*disk_, output_, {.run = "it", .attempt = attempt}));
  }

  std::unique_ptr<MlflowRun> begin(int64_t step = 0, int64_t attempt = 0, double lr = 0.1) {
    MlflowRunOptions options{
        .server = {.address = parse_url(server_.url()).value(), .answer_timeout = 2s},
        .config = {.tracking_uri = server_.url(), .experiment = "tests", .run_name = ""},
        .output = output_,
        .run = "it",
        .attempt = attempt,
        .name = "tiny",
        .params = {{"ranks", 1}, {"train", {{"optimizer", {{"lr", lr}}}}}},
        .pace = 1ms,
        .first_pause = 5ms,
        .longest_pause = 20ms};
    options.server.address.target.clear();
    auto run = std::make_unique<MlflowRun>(options, common::Log(), *disk_);
    run->start(step, {{"lockstep.attempt", std::to_string(attempt)}});
    return run;
  }

  // Steps `first` to `last`, one line each.
  void train(MlflowRun& run, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      std::ofstream(output_ + "/metrics.jsonl", std::ios::app)
          << json{{"step", step}, {"loss", 1.0 / static_cast<double>(step)}, {"tokens", step}}
                 .dump()
          << "\n";
      run.line_written(step);
    }
  }

  // What cut_metrics() does when training starts at `step`.
  void cut(int64_t step) { EXPECT_TRUE(cut_metrics(*disk_, output_, {.step = step})); }

  static std::vector<int64_t> steps(int64_t last) {
    std::vector<int64_t> all(static_cast<std::size_t>(last));
    std::iota(all.begin(), all.end(), 1);
    return all;
  }

  support::ToldRun only_run() const {
    const std::vector<support::ToldRun> runs = server_.runs();
    EXPECT_EQ(runs.size(), 1U);
    return runs.empty() ? support::ToldRun{} : runs.front();
  }

  // Losses that the one run has; 0 while there is none.
  std::size_t num_told() const {
    return server_.runs().empty() ? 0 : only_run().steps_of("loss").size();
  }

  void wait_until(const std::function<bool()>& holds) const {
    const auto deadline = steady_clock::now() + 20s;
    while (!holds() && steady_clock::now() < deadline) std::this_thread::sleep_for(2ms);
    EXPECT_TRUE(holds());
  }

  support::MlflowServer server_;
  TempFolder folder_;
  const std::string output_ = folder_ / "out";
  const std::unique_ptr<Disk> disk_ = real_disk();
};

TEST_F(MlflowRunTest, ARunIsToldWhole) {
  const auto run = begin();
  train(*run, 1, 40);
  run->finish(MlflowStatus::kFinished, 20s);
  const support::ToldRun told = only_run();
  EXPECT_EQ(told.status, "FINISHED");
  EXPECT_GT(told.end_time, 1600000000000) << "milliseconds";
  EXPECT_EQ(told.name, "tiny");
  EXPECT_EQ(told.steps_of("loss"), steps(40));
  EXPECT_EQ(told.steps_of("tokens"), steps(40));
  EXPECT_EQ(told.params.at("train.optimizer.lr"), "0.1");
  EXPECT_EQ(told.tags.at("lockstep.attempt"), "0");
  EXPECT_THAT(server_.violations(), IsEmpty());
}

// Also where it has ended before a slow server makes it.
TEST_F(MlflowRunTest, ARunBeganWhenItBegan) {
  server_.add_fault({.path = "experiments/", .delay = 50ms});
  const auto run = begin();
  train(*run, 1, 3);
  run->finish(MlflowStatus::kFinished, 20s);
  const support::ToldRun told = only_run();
  EXPECT_GT(told.start_time, 1600000000000);
  EXPECT_LE(told.start_time, told.end_time);
}

TEST_F(MlflowRunTest, ALongRunIsToldInBatchesThatTheServerTakes) {
  server_.set_down(true);
  const auto run = begin();
  // Two metrics a step wait, and 1000 go at once. A slow program's server would be taken for away.
  const int64_t last = kIsInstrumented ? 600 : 2600;
  train(*run, 1, last);
  server_.set_down(false);
  wait_until([&] { return server_.count("log-batch") > 0; });
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_EQ(only_run().steps_of("loss"), steps(last));
  EXPECT_GE(server_.count("log-batch"), 2 + last * 2 / 1000) << "two have params and tags";
  EXPECT_THAT(server_.violations(), IsEmpty());
}

TEST_F(MlflowRunTest, AServerThatIsAwayStopsNothingAndMissesNothing) {
  server_.set_down(true);
  const auto run = begin();
  const auto began = steady_clock::now();
  train(*run, 1, 50);
  EXPECT_LT(steady_clock::now() - began, 2s) << "no step waits";
  wait_until([&] { return server_.connections() >= 3; });
  server_.set_down(false);
  wait_until([&] { return !server_.runs().empty(); });
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_EQ(only_run().steps_of("loss"), steps(50));
  EXPECT_EQ(only_run().status, "FINISHED");
}

TEST_F(MlflowRunTest, AServerThatDiesInBetweenIsToldTheRestLater) {
  const auto run = begin();
  train(*run, 1, 10);
  wait_until([&] { return num_told() == 10; });
  server_.set_down(true);
  train(*run, 11, 20);
  std::this_thread::sleep_for(50ms);
  server_.set_down(false);
  train(*run, 21, 30);
  wait_until([&] { return num_told() == 30; });
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_EQ(only_run().steps_of("loss"), steps(30));
}

TEST_F(MlflowRunTest, TheEndHardlyWaitsForAServerThatIsAway) {
  server_.set_down(true);
  const auto run = begin();
  train(*run, 1, 3);
  wait_until([&] { return server_.connections() >= 1; });
  const auto began = steady_clock::now();
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_LT(steady_clock::now() - began, 5s);
}

TEST_F(MlflowRunTest, TheEndWaitsNoLongerThanItMayForASlowServer) {
  const auto run = begin();
  wait_until([&] { return server_.count("log-batch") >= 2; });
  server_.add_fault({.path = "log-batch", .delay = 1500ms});
  train(*run, 1, 3);
  const auto began = steady_clock::now();
  run->finish(MlflowStatus::kFinished, 200ms);
  EXPECT_LT(steady_clock::now() - began, 1s);
}

TEST_F(MlflowRunTest, WhatOneAttemptCouldNotTellTheNextTells) {
  {
    server_.set_down(true);
    const auto run = begin();
    train(*run, 1, 10);
    run->finish(MlflowStatus::kKilled, 1s);
  }
  server_.set_down(false);
  prepare(1);
  const auto run = begin(10, 1);
  train(*run, 11, 12);
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_EQ(only_run().steps_of("loss"), steps(12));
}

TEST_F(MlflowRunTest, AResumeGoesOnWithTheSameRunAndTellsNoStepTwice) {
  {
    const auto run = begin();
    train(*run, 1, 10);
    run->finish(MlflowStatus::kFailed, 20s);
    EXPECT_EQ(only_run().status, "FAILED");
  }
  prepare(1);
  cut(6);
  const auto run = begin(6, 1);
  wait_until([&] { return only_run().status == "RUNNING"; });
  train(*run, 7, 12);
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_EQ(only_run().steps_of("loss"), steps(12));
  EXPECT_EQ(only_run().status, "FINISHED");
  EXPECT_EQ(only_run().tags.at("lockstep.attempt"), "1");
  EXPECT_THAT(server_.violations(), IsEmpty());
}

TEST_F(MlflowRunTest, ALostAnswerMakesNoSecondRun) {
  server_.add_fault({.path = "runs/create", .loses_answer = true});
  const auto run = begin();
  train(*run, 1, 3);
  wait_until([&] { return num_told() == 3; });
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_EQ(only_run().steps_of("loss"), steps(3));
}

TEST_F(MlflowRunTest, AnOverwrittenOutputIsAnotherRun) {
  {
    const auto run = begin();
    train(*run, 1, 3);
    run->finish(MlflowStatus::kFinished, 20s);
  }
  ASSERT_TRUE(prepare_output(*disk_, output_,
                             {.mode = common::OutputMode::kOverwrite, .run = "it", .attempt = 0}));
  const auto run = begin();
  train(*run, 1, 2);
  run->finish(MlflowStatus::kFinished, 20s);
  ASSERT_EQ(server_.runs().size(), 2U);
  EXPECT_EQ(server_.runs()[1].steps_of("loss"), steps(2));
}

TEST_F(MlflowRunTest, OtherSettingsFromTheFirstStepOnAreAnotherRun) {
  {
    const auto run = begin(0, 0, 0.1);
    train(*run, 1, 3);
    run->finish(MlflowStatus::kKilled, 20s);
  }
  cut(0);
  const auto run = begin(0, 0, 0.2);
  train(*run, 1, 3);
  run->finish(MlflowStatus::kFinished, 20s);
  ASSERT_EQ(server_.runs().size(), 2U);
  EXPECT_EQ(server_.runs()[1].params.at("train.optimizer.lr"), "0.2");
  EXPECT_THAT(server_.violations(), IsEmpty()) << "no param was changed";
}

TEST_F(MlflowRunTest, ARunThatSomebodyDeletedIsReplacedAndToldFromTheStart) {
  {
    const auto run = begin();
    train(*run, 1, 5);
    run->finish(MlflowStatus::kKilled, 20s);
  }
  server_.delete_run("run0");
  const auto run = begin(5, 0);
  train(*run, 6, 7);
  run->finish(MlflowStatus::kFinished, 20s);
  ASSERT_EQ(server_.runs().size(), 2U);
  EXPECT_EQ(server_.runs()[1].steps_of("loss"), steps(7));
}

TEST_F(MlflowRunTest, ARefusalIsTheEndOfTellingAndOfNothingElse) {
  server_.require_authorization("Bearer other");
  const auto run = begin();
  train(*run, 1, 3);
  wait_until([&] { return server_.connections() >= 1; });
  const auto began = steady_clock::now();
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_LT(steady_clock::now() - began, 5s);
  EXPECT_THAT(server_.runs(), IsEmpty());
  EXPECT_EQ(server_.connections(), 1) << "nobody asks again";
}

TEST_F(MlflowRunTest, AServerInTroubleIsAskedAgain) {
  for (int i = 0; i < 3; ++i) server_.add_fault({.path = "log-batch", .status = 503, .body = "{}"});
  const auto run = begin();
  train(*run, 1, 5);
  wait_until([&] { return server_.count("log-batch") >= 6; });
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_EQ(only_run().steps_of("loss"), steps(5));
}

TEST_F(MlflowRunTest, AnAttemptThatWasReplacedTellsNoMore) {
  const auto old = begin();
  wait_until([&] { return server_.count("log-batch") >= 2; });
  prepare(1);  // a later attempt has the output now
  train(*old, 1, 1);
  old->finish(MlflowStatus::kFailed, 20s);
  EXPECT_EQ(only_run().status, "RUNNING") << "which is the later attempt's to say";
}

TEST_F(MlflowRunTest, EvaluationsAreToldBesideTheirSteps) {
  const auto run = begin();
  train(*run, 1, 2);
  std::ofstream(output_ + "/metrics.jsonl", std::ios::app)
      << R"({"step": 2, "validation_loss": 0.25})"
      << "\n";
  run->line_written(2);
  train(*run, 3, 3);
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_THAT(only_run().steps_of("validation_loss"), ElementsAre(2));
  EXPECT_EQ(only_run().steps_of("loss"), steps(3));
}

TEST_F(MlflowRunTest, ALineThatIsNotWholeWaits) {
  const auto run = begin();
  std::ofstream(output_ + "/metrics.jsonl", std::ios::app) << R"({"step": 1, "lo)" << std::flush;
  run->line_written(1);
  std::this_thread::sleep_for(30ms);
  std::ofstream(output_ + "/metrics.jsonl", std::ios::app) << R"(ss": 0.5})"
                                                           << "\n";
  run->line_written(1);
  run->finish(MlflowStatus::kFinished, 20s);
  EXPECT_EQ(only_run().steps_of("loss"), steps(1));
}

TEST_F(MlflowRunTest, WithoutAStartThereIsNothingToFinish) {
  MlflowRun run({.server = {.address = parse_url(server_.url()).value()},
                 .config = {.tracking_uri = server_.url(), .experiment = "tests", .run_name = ""},
                 .output = output_,
                 .run = "it",
                 .name = "tiny",
                 .params = {{"train", json::object()}}},
                common::Log(), *disk_);
  run.finish(MlflowStatus::kFailed, 20s);
  EXPECT_EQ(server_.connections(), 0);
}

}  // namespace
}  // namespace lockstep::runtime
