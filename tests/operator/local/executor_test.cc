// Runs real child processes (small shell programs in place of a trainer) through the planner.
#include "operator/local/executor.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

class ExecutorTest : public testing::Test {
 protected:
  ExecutorTest() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-executor-XXXXXX").string();
    output_ = mkdtemp(pattern.data());
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    signal_read_ = ends[0];
    signal_write_ = ends[1];
  }
  ~ExecutorTest() override {
    close(signal_read_);
    close(signal_write_);
    fs::remove_all(output_);
  }

  static api::TrainingJob job(const std::string& script, int64_t ranks) {
    api::TrainingJob job;
    job.meta.name = "demo";
    job.spec.ranks = ranks;
    job.spec.command = {"/bin/sh", "-c", script};
    return job;
  }
  ExecutorOptions options() {
    ExecutorOptions options;
    options.processes = {.output = output_, .runtime_program = "unused"};
    options.signal_fd = signal_read_;
    options.on_event = [this](const plan::Event& event) { events_ += event.reason + " "; };
    return options;
  }
  // What a signalfd would deliver for one Ctrl-C.
  void press_ctrl_c() const {
    const signalfd_siginfo info{};
    EXPECT_EQ(write(signal_write_, &info, sizeof info), static_cast<ssize_t>(sizeof info));
  }
  // Waits until a file below the output holds `text`; gives up after a minute.
  void await_text(const std::string& name, const std::string& text) const {
    for (int i = 0; i < 6000 && text_of(name).find(text) == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(output_ + "/" + name).rdbuf();
    return text.str();
  }

  std::string output_;
  std::string events_;
  int signal_read_ = -1, signal_write_ = -1;
};

TEST_F(ExecutorTest, JobWhoseRanksAllExitZeroSucceeds) {
  const auto report = run_job(job("echo rank $RANK of $WORLD_SIZE", 3), options());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->end, RunEnd::kSucceeded);
  EXPECT_EQ(report->status.ranks.succeeded, 3);
  EXPECT_EQ(text_of("logs/attempt-0/rank-2.log"), "rank 2 of 3\n");
}

TEST_F(ExecutorTest, FailedRankRestartsTheWholeGangOnce) {
  const std::string script =
      "test $LOCKSTEP_ATTEMPT = 1 || { test $RANK = 0 && exec sleep 600; exit 3; }";
  const auto report = run_job(job(script, 2), options());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->end, RunEnd::kSucceeded);
  EXPECT_EQ(report->status.attempt, 1);
  EXPECT_EQ(report->status.restarts, 1);
  ASSERT_TRUE(report->status.first_failure.has_value());
  EXPECT_EQ(report->status.first_failure->rank, 1);
  EXPECT_EQ(report->status.first_failure->exit_code, 3);
}

TEST_F(ExecutorTest, JobFailsWhenItsRestartBudgetIsSpentAndNamesTheRanksLog) {
  api::TrainingJob failing = job("echo broken; exit 5", 1);
  failing.spec.failure_policy.max_restarts = 0;
  const auto report = run_job(failing, options());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->end, RunEnd::kFailed);
  EXPECT_EQ(report->failed_log, output_ + "/logs/attempt-0/rank-0.log");
  EXPECT_EQ(text_of("logs/attempt-0/rank-0.log"), "broken\n");
}

TEST_F(ExecutorTest, RuleOfTheManifestDecidesHereToo) {
  api::TrainingJob failing = job("exit 5", 2);
  failing.spec.failure_policy.rules = {
      {.exit_codes = {5}, .reasons = {}, .action = api::RuleAction::kFail}};
  const auto report = run_job(failing, options());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->end, RunEnd::kFailed);
  EXPECT_EQ(report->status.attempt, 0);
  EXPECT_NE(report->status.message.find("failurePolicy.rules[0]"), std::string::npos);
}

TEST_F(ExecutorTest, DeadlineEndsTheRunAndLetsRanksSave) {
  api::TrainingJob late =
      job("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done", 2);
  late.spec.active_deadline = std::chrono::seconds(2);
  const auto report = run_job(late, options());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->end, RunEnd::kFailed);
  EXPECT_NE(report->status.message.find("activeDeadlineSeconds"), std::string::npos);
  EXPECT_EQ(text_of("logs/attempt-0/rank-0.log"), "up\nsaved\n");
}

TEST_F(ExecutorTest, JobOfAnotherControllerRunsHereWhenItIsAskedTo) {
  api::TrainingJob foreign = job("exit 0", 1);
  foreign.spec.managed_by = "example.com/other";
  foreign.spec.ttl_after_finished = std::chrono::seconds(0);
  const auto report = run_job(foreign, options());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->end, RunEnd::kSucceeded);
}

TEST_F(ExecutorTest, FirstCtrlCSuspendsByASignalThatRanksCanHandle) {
  const std::jthread person([this] {
    await_text("logs/attempt-0/rank-1.log", "up");
    press_ctrl_c();
  });
  const std::string script =
      "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done";
  const auto report = run_job(job(script, 2), options());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->end, RunEnd::kSuspended);
  EXPECT_EQ(text_of("logs/attempt-0/rank-1.log"), "up\nsaved\n");
}

TEST_F(ExecutorTest, SecondCtrlCKillsRanksThatIgnoreTheFirst) {
  const std::jthread person([this] {
    await_text("logs/attempt-0/rank-0.log", "up");
    await_text("logs/attempt-0/rank-1.log", "up");
    press_ctrl_c();
    press_ctrl_c();
  });
  const std::string script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
  const auto report = run_job(job(script, 2), options());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->end, RunEnd::kKilled);
}

TEST_F(ExecutorTest, ProgramThatCannotBeStartedIsAnErrorThatNamesIt) {
  api::TrainingJob missing = job("", 1);
  missing.spec.command = {"/no/such/program"};
  const auto report = run_job(missing, options());
  ASSERT_FALSE(report.has_value());
  EXPECT_NE(report.error().message.find("/no/such/program"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::local
