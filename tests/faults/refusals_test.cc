// What cannot be trained is refused with a typed exit code, one message and a hint; nothing that
// was there is lost.
#include <array>
#include <cstdio>
#include <filesystem>
#include <span>

#include <gtest/gtest.h>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/common/http_server.h"
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
using support::write_text;

class RefusalsTest : public testing::Test {
 protected:
  void SetUp() override { write_text(folder_.path("corpus.txt"), tiny_corpus(20000)); }

  TinyJob job() const { return {.data = folder_.path("corpus.txt"), .steps = 4}; }

  GangOptions options(const TinyJob& job) const {
    return {.runtime = support::kRuntimeProgram,
            .job = to_json(job),
            .folder = folder_.path("files"),
            .output = folder_.path("output"),
            .num_ranks = job.ranks};
  }

  // Rank `rank` must end with `code`, and its last words must hold `text` and a hint.
  static void expect_refusal(const GangOptions& gang_options, ExitCode code,
                             const std::string& text, int rank = 0) {
    Gang gang(gang_options);
    const std::vector<int> exit_codes = gang.wait();
    EXPECT_EQ(exit_codes.at(static_cast<std::size_t>(rank)), static_cast<int>(code))
        << gang.log(rank);
    const auto words = gang.last_words(rank);
    ASSERT_TRUE(words) << gang.log(rank);
    EXPECT_EQ(words->rank, rank);
    EXPECT_EQ(words->reason, common::reason_of(code));
    EXPECT_NE(words->message.find(text), std::string::npos) << words->message;
    EXPECT_FALSE(words->hint.empty()) << words->message;
  }

  TemporaryFolder folder_;
};

TEST_F(RefusalsTest, MissingData) {
  TinyJob missing = job();
  missing.data = folder_.path("nothing.txt");
  expect_refusal(options(missing), ExitCode::kInputNotFound, "nothing.txt");
}

TEST_F(RefusalsTest, EmptyCorpus) {
  write_text(folder_.path("empty.txt"), "");
  TinyJob empty = job();
  empty.data = folder_.path("empty.txt");
  expect_refusal(options(empty), ExitCode::kInvalidData, "empty");
}

TEST_F(RefusalsTest, CorpusShorterThanOneGlobalBatch) {
  write_text(folder_.path("short.txt"), "too short to train on");
  TinyJob tiny = job();
  tiny.data = folder_.path("short.txt");
  expect_refusal(options(tiny), ExitCode::kInvalidData, "21");
}

TEST_F(RefusalsTest, MissingJobFile) {
  GangOptions gang = options(job());
  gang.env["LOCKSTEP_JOB"] = folder_.path("no-job.json");
  expect_refusal(gang, ExitCode::kInputNotFound, "no-job.json");
}

TEST_F(RefusalsTest, UnknownKeyInTheJobFile) {
  GangOptions gang = options(job());
  gang.job["train"]["optimizer"]["learningRate"] = 1;
  expect_refusal(gang, ExitCode::kInvalidConfig, "learningRate");
}

TEST_F(RefusalsTest, MissingVariable) {
  GangOptions gang = options(job());
  gang.env["RANK"] = "";
  Gang started(gang);
  EXPECT_EQ(started.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidConfig)});
  EXPECT_NE(started.log(0).find("RANK"), std::string::npos) << started.log(0);
}

TEST_F(RefusalsTest, RanksThatDoNotDivideTheMicroBatches) {
  TinyJob indivisible = job();
  indivisible.ranks = 5;
  GangOptions gang = options(indivisible);
  expect_refusal(gang, ExitCode::kInvalidConfig, "5");
}

TEST_F(RefusalsTest, GroupsThatDoNotDivideTheRanks) {
  TinyJob indivisible = job();
  indivisible.ranks = 4;
  indivisible.strategy = "zero3";
  indivisible.shard_ranks = 3;
  expect_refusal(options(indivisible), ExitCode::kInvalidConfig, "shardRanks");
}

TEST_F(RefusalsTest, PortInUse) {
  const auto other = common::HttpServer::start({.address = "127.0.0.1"});
  ASSERT_TRUE(other);
  GangOptions gang = options(job());
  gang.env["LOCKSTEP_METRICS_PORT"] = std::to_string((*other)->port());
  expect_refusal(gang, ExitCode::kPortInUse, std::to_string((*other)->port()));
}

TEST_F(RefusalsTest, UnwritableOutput) {
  // A file where the folder should be: root could write through mere permissions.
  write_text(folder_.path("file"), "not a folder");
  GangOptions gang = options(job());
  gang.output = folder_.path("file") + "/output";
  expect_refusal(gang, ExitCode::kOutputUnwritable, folder_.path("file"));
}

TEST_F(RefusalsTest, OutputThatRanksDoNotShare) {
  TinyJob pair = job();
  pair.ranks = 2;
  GangOptions gang = options(pair);
  std::filesystem::create_directories(folder_.path("elsewhere"));
  gang.rank_env[1]["LOCKSTEP_OUTPUT"] = folder_.path("elsewhere");
  expect_refusal(gang, ExitCode::kOutputNotShared, "elsewhere", 1);
  std::filesystem::remove_all(folder_.path("output"));
  expect_refusal(gang, ExitCode::kPeerLost, "rank 1");
}

TEST_F(RefusalsTest, FinishedOutputUnlessAskedFor) {
  EXPECT_EQ(Gang(options(job())).wait(), std::vector<int>{0});
  const std::string weights = read_text(folder_.path("output") + "/model/model.safetensors");
  ASSERT_FALSE(weights.empty());
  expect_refusal(options(job()), ExitCode::kOutputFinished, "finished");
  EXPECT_TRUE(read_text(folder_.path("output") + "/model/model.safetensors") == weights);

  GangOptions overwrite = options(job());
  overwrite.env["LOCKSTEP_OUTPUT_MODE"] = "overwrite";
  EXPECT_EQ(Gang(overwrite).wait(), std::vector<int>{0});
  EXPECT_TRUE(read_text(folder_.path("output") + "/model/model.safetensors") == weights);
}

TEST_F(RefusalsTest, ResumingAnotherRunsCheckpoint) {
  EXPECT_EQ(Gang(options(job())).wait(), std::vector<int>{0});
  GangOptions other = options(job());
  other.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
  other.job["train"]["seed"] = 7;
  expect_refusal(other, ExitCode::kInvalidConfig, "train.seed was 42 and is 7");
}

// Naming a checkpoint means this one: nothing else is started from instead.
TEST_F(RefusalsTest, ANamedCheckpointThatIsMissingDamagedOrAnotherRuns) {
  GangOptions first = options(job());
  first.output = folder_.path("first");
  ASSERT_EQ(Gang(first).wait(), std::vector<int>{0});
  const std::string checkpoint = folder_.path("first") + "/checkpoints/step-4";
  GangOptions named = options(job());
  nlohmann::json& resume = named.job["train"]["checkpoint"]["resume"];

  resume = folder_.path("first") + "/checkpoints/step-3";
  expect_refusal(named, ExitCode::kInputNotFound, "train.checkpoint.resume");
  resume = checkpoint;
  named.job["train"]["seed"] = 7;
  expect_refusal(named, ExitCode::kInvalidConfig, "train.seed was 42 and is 7");
  named.job["train"].erase("seed");
  resume = "atuo";
  expect_refusal(named, ExitCode::kInvalidConfig, "auto, never, or the folder of a checkpoint");
  resume = checkpoint;
  std::filesystem::resize_file(checkpoint + "/rank-0.bin", 100);
  expect_refusal(named, ExitCode::kCheckpointDamaged, "rank-0.bin");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("output") + "/model"));
}

TEST_F(RefusalsTest, OnlyDamagedCheckpoints) {
  EXPECT_EQ(Gang(options(job())).wait(), std::vector<int>{0});
  const std::string manifest = folder_.path("output") + "/checkpoints/step-4/manifest.json";
  ASSERT_TRUE(std::filesystem::exists(manifest));
  write_text(manifest, read_text(manifest).substr(0, 100));
  GangOptions resume = options(job());
  resume.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
  expect_refusal(resume, ExitCode::kCheckpointDamaged, "step-4");
}

// The link stands for all that keeps a sound file from being read.
TEST_F(RefusalsTest, ACheckpointThatCannotBeReadIsNotTakenForDamaged) {
  EXPECT_EQ(Gang(options(job())).wait(), std::vector<int>{0});
  const std::string checkpoint = folder_.path("output") + "/checkpoints/step-4";
  std::filesystem::remove(checkpoint + "/rank-0.bin");
  std::filesystem::create_symlink("rank-0.bin", checkpoint + "/rank-0.bin");
  GangOptions resume = options(job());
  resume.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
  expect_refusal(resume, ExitCode::kInternal, checkpoint + "/rank-0.bin");
  EXPECT_TRUE(std::filesystem::exists(checkpoint + "/manifest.json")) << "it was set aside";
}

TEST_F(RefusalsTest, ACheckpointOfAnotherFormatVersion) {
  EXPECT_EQ(Gang(options(job())).wait(), std::vector<int>{0});
  const std::string path = folder_.path("output") + "/checkpoints/step-4/manifest.json";
  nlohmann::json envelope = nlohmann::json::parse(read_text(path));
  envelope["manifest"]["version"] = 99;
  const std::string body = envelope["manifest"].dump();
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x",
                runtime::crc32c(std::as_bytes(std::span(body))));
  envelope["crc32c"] = digits.data();
  write_text(path, envelope.dump());

  GangOptions resume = options(job());
  resume.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
  Gang gang(resume);
  EXPECT_EQ(gang.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidData)});
  ASSERT_TRUE(gang.last_words(0));
  EXPECT_NE(gang.last_words(0)->message.find("format version 99"), std::string::npos);
  EXPECT_EQ(gang.last_words(0)->hint, "use the version of the program that wrote this checkpoint");
}

TEST_F(RefusalsTest, LossThatIsNotFinite) {
  TinyJob wild = job();
  wild.lr = 1000;
  wild.steps = 8;  // more than are skipped
  expect_refusal(options(wild), ExitCode::kNonFinite, "at step");
}

}  // namespace
}  // namespace lockstep::faults
