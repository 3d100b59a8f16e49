#include "runtime/checkpoint/output_folder.h"

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/faulty_disk.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::ErrorCode;
using common::OutputMode;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string line(int64_t step) {
  return R"({"loss":2.5,"step":)" + std::to_string(step) + "}\n";
}

class OutputFolderTest : public ::testing::Test {
 protected:
  void fill_with_finished_run() {
    write_text(output_ + "/checkpoints/step-9/manifest.json", "{}");
    write_text(output_ + "/model/config.json", "{}");
    write_text(output_ + "/metrics.jsonl", line(9));
    write_text(output_ + "/loss.svg", "<svg/>");
    write_text(output_ + "/logs/attempt-1/rank-0.log", "log");
    write_text(output_ + "/notes.txt", "the user's");
    write_text(output_ + "/run.json", R"({"run":"old"})");
    ASSERT_TRUE(mark_finished(*disk_, output_, {.step = 9, .run = "old"}));
  }
  static Preparation first(OutputMode mode) { return {.mode = mode, .run = "new", .attempt = 0}; }
  static Preparation restart(int64_t attempt, const std::string& run) {
    return {.mode = OutputMode::kAuto, .run = run, .attempt = attempt};
  }
  std::optional<FinishedRun> finished() const { return *finished_run(output_); }
  bool exists(const std::string& name) const { return fs::exists(output_ + "/" + name); }

  TempFolder folder_;
  std::string output_ = folder_ / "deep/output";
  std::unique_ptr<Disk> disk_ = real_disk();
};

TEST_F(OutputFolderTest, NewFolderIsCreatedAndHoldsOnlyTheNameOfItsRun) {
  ASSERT_TRUE(prepare_output(*disk_, output_, first(OutputMode::kAuto)));
  EXPECT_EQ(std::distance(fs::directory_iterator(output_), fs::directory_iterator()), 1);
  EXPECT_EQ(*prepared_run(output_), "new");
}

TEST_F(OutputFolderTest, ModelThatNoRunHasLeftIsRefusedUntouched) {
  write_text(output_ + "/model/mine.txt", "mine");
  for (const OutputMode mode : {OutputMode::kAuto, OutputMode::kResume}) {
    const auto prepared = prepare_output(*disk_, output_, first(mode));
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code, ErrorCode::kAlreadyExists);
    EXPECT_THAT(prepared.error().message, HasSubstr("model"));
    EXPECT_TRUE(exists("model/mine.txt"));
  }
}

TEST_F(OutputFolderTest, FinishedRunIsRefusedUntouched) {
  fill_with_finished_run();
  const auto prepared = prepare_output(*disk_, output_, first(OutputMode::kAuto));
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(prepared.error().message, HasSubstr("9 steps"));
  EXPECT_THAT(prepared.error().hint, HasSubstr("--overwrite"));
  EXPECT_EQ(finished(), (FinishedRun{9, "old"}));
  EXPECT_EQ(*prepared_run(output_), "old");
  EXPECT_TRUE(exists("checkpoints/step-9/manifest.json"));
}

TEST_F(OutputFolderTest, ResumeKeepsTheRunAndTakesItsMarkerAway) {
  fill_with_finished_run();
  ASSERT_TRUE(prepare_output(*disk_, output_, first(OutputMode::kResume)));
  EXPECT_EQ(finished(), std::nullopt);
  EXPECT_EQ(*prepared_run(output_), "new");
  EXPECT_TRUE(exists("checkpoints/step-9/manifest.json"));
  EXPECT_TRUE(exists("metrics.jsonl"));
}

TEST_F(OutputFolderTest, OverwriteRemovesTheReferencesButNoTokenFile) {
  fill_with_finished_run();
  for (const char* const name : {"12ab.tokens", "reference.train", "reference.validation"}) {
    write_text(output_ + "/tokens/" + name, "x");
  }
  ASSERT_TRUE(prepare_output(*disk_, output_, first(OutputMode::kResume)));
  EXPECT_TRUE(exists("tokens/reference.train"));
  ASSERT_TRUE(prepare_output(*disk_, output_, first(OutputMode::kOverwrite)));
  EXPECT_FALSE(exists("tokens/reference.train"));
  EXPECT_FALSE(exists("tokens/reference.validation"));
  EXPECT_TRUE(exists("tokens/12ab.tokens"));
}

TEST_F(OutputFolderTest, OverwriteRemovesTheRunButNotLogsNorTheUsersFiles) {
  fill_with_finished_run();
  ASSERT_TRUE(prepare_output(*disk_, output_, first(OutputMode::kOverwrite)));
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(output_)) {
    left.insert(entry.path().filename().string());
  }
  EXPECT_EQ(left, (std::set<std::string>{"logs", "notes.txt", "run.json"}));
  EXPECT_EQ(*prepared_run(output_), "new");
}

TEST_F(OutputFolderTest, UnfinishedRunIsKeptAndTemporariesOfEarlierAttemptsGo) {
  write_text(output_ + "/checkpoints/step-9/manifest.json", "{}");
  write_text(output_ + "/checkpoints/.attempt-1-step-12/rank-0.bin", "x");
  write_text(output_ + "/checkpoints/.attempt-3-step-12/rank-0.bin", "x");
  write_text(output_ + "/.nonce-0123", "0123");
  write_text(output_ + "/run.json", R"({"run":"ours"})");
  ASSERT_TRUE(prepare_output(*disk_, output_, restart(2, "ours")));
  EXPECT_TRUE(exists("checkpoints/step-9/manifest.json"));
  EXPECT_FALSE(exists("checkpoints/.attempt-1-step-12"));
  EXPECT_TRUE(exists("checkpoints/.attempt-3-step-12"));
  EXPECT_FALSE(exists(".nonce-0123"));
}

TEST_F(OutputFolderTest, TemporariesOfAnotherRunGoWhateverTheirAttempt) {
  const std::string leftover = "checkpoints/.attempt-7-step-12";
  for (const Preparation& preparation : {first(OutputMode::kAuto), restart(2, "new")}) {
    write_text(output_ + "/run.json", R"({"run":"old"})");
    write_text(output_ + "/" + leftover + "/rank-0.bin", "x");
    ASSERT_TRUE(prepare_output(*disk_, output_, preparation));
    EXPECT_FALSE(exists(leftover)) << preparation.attempt;
  }
  // A first attempt begins a run, even if the run before it looked the same.
  for (const char* same : {R"({"run":"new"})", R"({"run":"new","attempt":0})"}) {
    write_text(output_ + "/run.json", same);
    write_text(output_ + "/" + leftover + "/rank-0.bin", "x");
    ASSERT_TRUE(prepare_output(*disk_, output_, first(OutputMode::kAuto)));
    EXPECT_FALSE(exists(leftover));
  }
}

TEST_F(OutputFolderTest, AnAttemptThatComesLateTouchesNothingOfALaterOnes) {
  ASSERT_TRUE(prepare_output(*disk_, output_, restart(3, "ours")));
  const std::string saving = "checkpoints/.attempt-3-step-12/rank-0.bin";
  write_text(output_ + "/" + saving, "x");
  write_text(output_ + "/.nonce-0123", "0123");
  for (const int64_t attempt : {0, 1, 2}) {
    for (const OutputMode mode : {OutputMode::kAuto, OutputMode::kResume, OutputMode::kOverwrite}) {
      const auto late =
          prepare_output(*disk_, output_, {.mode = mode, .run = "ours", .attempt = attempt});
      ASSERT_FALSE(late);
      EXPECT_EQ(late.error().code, ErrorCode::kGone);
      EXPECT_THAT(late.error().message, HasSubstr("attempt 3 has taken over"));
    }
  }
  EXPECT_TRUE(exists(saving));
  EXPECT_TRUE(exists(".nonce-0123"));
  EXPECT_TRUE(check_fence(output_, "ours", 3));
  EXPECT_TRUE(prepare_output(*disk_, output_, restart(3, "ours"))) << "its own process, again";
  EXPECT_TRUE(prepare_output(*disk_, output_, restart(4, "ours")));
  EXPECT_EQ(check_fence(output_, "ours", 3).error().code, ErrorCode::kGone);
  EXPECT_TRUE(prepare_output(*disk_, output_, restart(0, "another run")));
  EXPECT_EQ(check_fence(output_, "ours", 4).error().code, ErrorCode::kGone);
}

// The fence stands before anything else happens, so no save slips in behind it.
TEST_F(OutputFolderTest, ALaterAttemptRaisesItsFenceBeforeItSweeps) {
  ASSERT_TRUE(prepare_output(*disk_, output_, restart(1, "ours")));
  int64_t failing_call = 0;
  bool is_prepared = false;
  while (!is_prepared) {
    write_text(output_ + "/run.json", R"({"run":"ours","attempt":1})");
    const std::string saving = output_ + "/checkpoints/.attempt-1-step-12/rank-0.bin";
    write_text(saving, "x");
    FaultyDisk disk(Fault::kFailOnce, failing_call++);
    is_prepared = prepare_output(disk, output_, restart(2, "ours")).has_value();
    EXPECT_TRUE(fs::exists(saving) || !check_fence(output_, "ours", 1)) << "call " << failing_call;
  }
  EXPECT_GT(failing_call, 3);
}

TEST_F(OutputFolderTest, MarkersThatAreNotOursNameNoRun) {
  fs::create_directories(output_);
  EXPECT_EQ(*prepared_run(output_), "");
  EXPECT_EQ(finished(), std::nullopt);
  write_text(output_ + "/run.json", "touched by hand");
  write_text(output_ + "/finished.json", "");
  EXPECT_EQ(*prepared_run(output_), "");
  EXPECT_EQ(finished(), (FinishedRun{0, ""}));
}

// A run that cannot be looked at must not pass for none: overwriting would follow.
TEST_F(OutputFolderTest, MarkersThatCannotBeReadAreAnError) {
  fs::create_directories(output_);
  fs::create_symlink("run.json", output_ + "/run.json");
  fs::create_symlink("finished.json", output_ + "/finished.json");
  EXPECT_THAT(prepared_run(output_).error().message, HasSubstr("run.json"));
  EXPECT_THAT(finished_run(output_).error().message, HasSubstr("finished.json"));
}

TEST_F(OutputFolderTest, FileInPlaceOfTheFolderIsAnErrorWithItsPath) {
  write_text(output_, "a file");
  const auto prepared = prepare_output(*disk_, output_, first(OutputMode::kAuto));
  ASSERT_FALSE(prepared);
  EXPECT_THAT(prepared.error().message, HasSubstr(output_));
}

// Whatever call fails or is the last: the old run is still finished, or there is nothing to resume.
TEST_F(OutputFolderTest, InterruptedOverwriteNeverLeavesAnOldRunToResume) {
  for (const Fault fault : {Fault::kFailOnce, Fault::kCrashBefore, Fault::kCrashAfter}) {
    bool reached = true;
    for (int64_t call = 0; reached; ++call) {
      fs::remove_all(output_);
      fill_with_finished_run();
      FaultyDisk disk(fault, call);
      try {
        const auto prepared = prepare_output(disk, output_, first(OutputMode::kOverwrite));
        reached = disk.num_calls() > call;
        EXPECT_EQ(prepared.has_value(), !reached);
      } catch (const Crash&) {
        reached = true;
      }
      EXPECT_TRUE(finished() || !exists("checkpoints")) << call;
      // No restart takes the old run for its own once anything of it is gone.
      EXPECT_TRUE(exists("checkpoints") || !exists("run.json") || *prepared_run(output_) == "new")
          << call;
    }
  }
}

// As restarts do with checkpoint.resume never: what is left must not pass for a stranger's.
TEST_F(OutputFolderTest, InterruptedOverwriteOfItsOwnRunKeepsItsName) {
  for (const Fault fault : {Fault::kFailOnce, Fault::kCrashBefore, Fault::kCrashAfter}) {
    bool reached = true;
    for (int64_t call = 0; reached; ++call) {
      fs::remove_all(output_);
      fill_with_finished_run();
      Preparation again = restart(2, "old");
      again.mode = OutputMode::kOverwrite;
      FaultyDisk disk(fault, call);
      try {
        reached = !prepare_output(disk, output_, again).has_value();
      } catch (const Crash&) {
        reached = true;
      }
      EXPECT_EQ(*prepared_run(output_), "old") << call;
    }
  }
}

TEST_F(OutputFolderTest, MetricsAreCutBackToTheStep) {
  struct Case {
    std::string before;
    int64_t step;
    std::string after;
  };
  const std::vector<Case> cases = {
      {line(1) + line(2) + line(3), 2, line(1) + line(2)},
      {line(1) + line(2), 2, line(1) + line(2)},
      {line(1) + line(2), 9, line(1) + line(2)},
      {line(1) + line(2), 0, ""},
      {line(1) + R"({"loss":2.5,"st)", 9, line(1)},
      {line(1) + R"({"step":2})", 9, line(1)},  // without its newline a line is torn
      {line(1) + "garbage\n" + line(2), 9, line(1)},
      {line(5) + R"({"step":"6"})" + "\n", 9, line(5)},
      {"", 3, ""},
  };
  for (const Case& example : cases) {
    write_text(output_ + "/metrics.jsonl", example.before);
    ASSERT_TRUE(cut_metrics(*disk_, output_, {.step = example.step}));
    EXPECT_EQ(read_text(output_ + "/metrics.jsonl"), example.after);
  }
}

TEST_F(OutputFolderTest, AnEvaluationThatIsMadeAgainIsCut) {
  const std::string validation = R"({"step": 2, "validation_loss": 3.5})"
                                 "\n";
  const std::string before = line(1) + line(2) + validation + line(3);
  for (const bool is_evaluated : {true, false}) {
    write_text(output_ + "/metrics.jsonl", before);
    ASSERT_TRUE(cut_metrics(*disk_, output_, {.step = 2, .is_evaluated = is_evaluated}));
    EXPECT_EQ(read_text(output_ + "/metrics.jsonl"),
              line(1) + line(2) + (is_evaluated ? validation : ""));
  }
}

TEST_F(OutputFolderTest, AFinishedRunSaysWhichStepItExported) {
  ASSERT_TRUE(disk_->make_folder(output_));
  for (const FinishedRun& run : {FinishedRun{16, "r", 10}, FinishedRun{16, "r", 0}}) {
    ASSERT_TRUE(mark_finished(*disk_, output_, run));
    EXPECT_EQ(finished(), run);
  }
}

TEST_F(OutputFolderTest, MissingMetricsAreFine) {
  fs::create_directories(output_);
  EXPECT_TRUE(cut_metrics(*disk_, output_, {.step = 3}));
  EXPECT_FALSE(exists("metrics.jsonl"));
}

TEST_F(OutputFolderTest, LongMetricsAreCutExactly) {
  std::string before;
  std::string after;
  for (int64_t step = 1; step <= 60'000; ++step) {
    before += line(step);
    if (step <= 50'000) after += line(step);
  }
  write_text(output_ + "/metrics.jsonl", before);
  ASSERT_TRUE(cut_metrics(*disk_, output_, {.step = 50'000}));
  EXPECT_EQ(read_text(output_ + "/metrics.jsonl"), after);
}

TEST_F(OutputFolderTest, InterruptedCutLeavesTheOldMetricsOrTheNew) {
  const std::string before = line(1) + line(2);
  for (const Fault fault : {Fault::kFailOnce, Fault::kCrashBefore, Fault::kCrashAfter}) {
    bool reached = true;
    for (int64_t call = 0; reached; ++call) {
      write_text(output_ + "/metrics.jsonl", before);
      FaultyDisk disk(fault, call);
      try {
        reached = !cut_metrics(disk, output_, {.step = 1}).has_value();
      } catch (const Crash&) {
        reached = true;
      }
      EXPECT_THAT(read_text(output_ + "/metrics.jsonl"), AnyOf(before, line(1))) << call;
    }
  }
}

TEST_F(OutputFolderTest, NonceIsSeenInTheSameFolderOnly) {
  fs::create_directories(output_);
  const std::string nonce = make_nonce();
  EXPECT_EQ(nonce.size(), 32u);
  EXPECT_NE(nonce, make_nonce());
  ASSERT_TRUE(write_nonce(*disk_, output_, nonce));
  EXPECT_TRUE(check_nonce(output_, nonce));
  const auto other = check_nonce(folder_.path(), nonce);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kConflict);
  EXPECT_THAT(other.error().message, HasSubstr(folder_.path()));
  EXPECT_FALSE(other.error().hint.empty());
  ASSERT_TRUE(remove_nonce(*disk_, output_, nonce));
  EXPECT_FALSE(check_nonce(output_, nonce));
}

}  // namespace
}  // namespace lockstep::runtime
