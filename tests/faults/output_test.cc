// What a run leaves in its output, and what it takes for its own there.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::faults {
namespace {

using common::ExitCode;
using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::read_text;
using support::TemporaryFolder;
using support::tiny_corpus;
using support::TinyJob;
using support::to_json;
using support::write_text;

constexpr char kOldCurve[] = "of the old run";

class OutputTest : public testing::Test {
 protected:
  void SetUp() override { write_text(folder_.path("corpus.txt"), tiny_corpus(20000)); }

  GangOptions options(int attempt = 0) const {
    return {.runtime = support::kRuntimeProgram,
            .job = to_json({.data = folder_.path("corpus.txt"), .steps = 4}),
            .folder = folder_.path("files"),
            .output = folder_.path("output"),
            .attempt = attempt};
  }
  GangOptions overwriting(int attempt, const std::string& run_id) const {
    GangOptions overwrite = options(attempt);
    overwrite.env["LOCKSTEP_OUTPUT_MODE"] = "overwrite";
    overwrite.env["LOCKSTEP_RUN_ID"] = run_id;
    return overwrite;
  }

  // Runs a gang of one rank; returns its exit code.
  static int run(const GangOptions& options) { return Gang(options).wait().front(); }

  std::string output(const std::string& name) const { return folder_.path("output/" + name); }
  bool exists(const std::string& name) const { return std::filesystem::exists(output(name)); }

  TemporaryFolder folder_;
};

TEST_F(OutputTest, ExportAtEndFalseFinishesWithoutAModel) {
  GangOptions without = options();
  without.job["train"]["export"] = {{"atEnd", false}};
  EXPECT_EQ(run(without), 0);
  EXPECT_TRUE(exists("finished.json"));
  EXPECT_TRUE(exists("checkpoints/step-4/manifest.json"));
  EXPECT_FALSE(exists("model"));
}

TEST_F(OutputTest, ABlockingSaveHoldsTheSameBytes) {
  const std::string shard = output("checkpoints/step-4/rank-0.bin");
  ASSERT_EQ(run(options()), 0);
  const std::string written_behind = read_text(shard);
  std::filesystem::remove_all(folder_.path("output"));
  GangOptions blocking = options();
  blocking.job["train"]["checkpoint"]["async"] = false;
  ASSERT_EQ(run(blocking), 0);
  ASSERT_FALSE(written_behind.empty());
  EXPECT_TRUE(read_text(shard) == written_behind);
}

TEST_F(OutputTest, ARestartDoesNotTakeAnotherRunsResultForItsOwn) {
  ASSERT_EQ(run(options()), 0);
  write_text(output("loss.svg"), kOldCurve);
  GangOptions other = options(1);
  other.job["train"]["optimizer"]["lr"] = 1e-3;
  EXPECT_EQ(run(other), static_cast<int>(ExitCode::kOutputFinished));
  EXPECT_EQ(read_text(output("loss.svg")), kOldCurve);
  EXPECT_EQ(run(options(1)), 0) << "its own result";
  EXPECT_EQ(read_text(output("loss.svg")), kOldCurve) << "nothing was left to do";
}

// A checkpoint holds the moments of its optimizer: another one cannot go on from it.
TEST_F(OutputTest, ACheckpointOfAnotherOptimizerIsRefusedByTheField) {
  GangOptions first = options();
  first.job["train"]["optimizer"] = {{"name", "sgd"}, {"momentum", 0.9}, {"lr", 1e-2}};
  ASSERT_EQ(run(first), 0);
  std::filesystem::remove(output("finished.json"));
  const auto refusal = [&](const nlohmann::json& optimizer) {
    GangOptions other = options(1);
    other.job["train"]["optimizer"] = optimizer;
    other.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
    Gang gang(other);
    EXPECT_EQ(gang.wait().front(), static_cast<int>(ExitCode::kInvalidConfig)) << gang.log(0);
    return gang.last_words(0) ? gang.last_words(0)->message : "";
  };
  EXPECT_NE(refusal({{"name", "adam"}}).find("train.optimizer.name was \"sgd\" and is \"adam\""),
            std::string::npos);
  EXPECT_NE(refusal({{"name", "sgd"}})
                .find("train.optimizer.momentum is 0.0, which keeps 0 moments per weight, and it "
                      "has 1"),
            std::string::npos);
  GangOptions slower = options(1);
  slower.job["train"]["optimizer"] = {{"name", "sgd"}, {"momentum", 0.8}, {"lr", 1e-3}};
  slower.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
  Gang gang(slower);
  EXPECT_EQ(gang.wait(), std::vector<int>{0}) << "rates may change";
  EXPECT_NE(
      gang.log(0).find("train.optimizer.lr 0.01 -> 0.001, train.optimizer.momentum 0.9 -> 0.8"),
      std::string::npos)
      << gang.log(0);
}

// Attempt 0 may end before it prepares the folder; the next one then has to overwrite.
TEST_F(OutputTest, TheFirstAttemptThatPreparesAnOverwritingRunOverwrites) {
  ASSERT_EQ(run(overwriting(0, "old")), 0);
  write_text(output("loss.svg"), kOldCurve);
  ASSERT_EQ(run(overwriting(1, "new")), 0);
  EXPECT_NE(read_text(output("loss.svg")), kOldCurve);

  write_text(output("loss.svg"), kOldCurve);
  EXPECT_EQ(run(overwriting(2, "new")), 0);
  EXPECT_EQ(read_text(output("loss.svg")), kOldCurve) << "its own result is kept";
}

TEST_F(OutputTest, ARestartOfAnOverwritingRunGoesOnFromItsOwnCheckpoint) {
  ASSERT_EQ(run(overwriting(0, "new")), 0);
  std::filesystem::remove(output("finished.json"));
  Gang restart(overwriting(1, "new"));
  EXPECT_EQ(restart.wait(), std::vector<int>{0});
  EXPECT_NE(restart.log(0).find("info resumed "), std::string::npos) << restart.log(0);
}

// The first moment of a byte's embedding shrinks to a hundredth in every step without this byte:
// unless denormals are flushed, those of rare bytes pass through them.
TEST_F(OutputTest, NoNumberThatIsTrainedIsDenormal) {
  std::string corpus = tiny_corpus(20000);
  for (char rare = '!'; rare <= '~'; ++rare) {
    if (corpus.find(rare) != std::string::npos) continue;
    corpus[static_cast<std::size_t>(rare - '!') * 200 + 7] = rare;
  }
  write_text(folder_.path("corpus.txt"), corpus);
  GangOptions rare_bytes = options();
  rare_bytes.job["train"]["steps"] = 34;  // one epoch
  rare_bytes.job["train"]["optimizer"]["betas"] = {0.01, 0.95};
  ASSERT_EQ(run(rare_bytes), 0);
  const std::string bytes = read_text(output("checkpoints/step-34/rank-0.bin"));
  std::vector<float> state(bytes.size() / sizeof(float));
  std::memcpy(state.data(), bytes.data(), state.size() * sizeof(float));
  ASSERT_GT(state.size(), 100000u);
  EXPECT_EQ(std::count_if(state.begin(), state.end(),
                          [](float value) { return std::fpclassify(value) == FP_SUBNORMAL; }),
            0);
}

TEST_F(OutputTest, LeftoversOfLaterAttemptsOfAnEarlierRunGo) {
  const std::string leftover = "checkpoints/.attempt-2-step-9";
  std::filesystem::create_directories(output(leftover));
  EXPECT_EQ(run(options()), 0);
  EXPECT_FALSE(exists(leftover));
}

}  // namespace
}  // namespace lockstep::faults
