// The promise of the product: weights and losses are the same bits on any number of ranks, with any
// strategy and backend, and after every kind of interruption.
#include <filesystem>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/tiny_job.h"

namespace lockstep::equivalence {
namespace {

using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::read_text;
using support::TemporaryFolder;
using support::tiny_corpus;
using support::TinyJob;

class SameBitsTest : public testing::Test {
 protected:
  void SetUp() override { support::write_text(folder_.path("corpus.txt"), tiny_corpus(40000)); }

  GangOptions options(const TinyJob& job, const std::string& name, int attempt = 0) const {
    TinyJob with_data = job;
    with_data.data = folder_.path("corpus.txt");
    return {.runtime = LOCKSTEP_RUNTIME,
            .job = to_json(with_data),
            .folder = folder_.path(name + ".files"),
            .output = folder_.path(name),
            .num_ranks = job.ranks,
            .attempt = attempt};
  }

  void train(const TinyJob& job, const std::string& name, int attempt = 0) const {
    Gang gang(options(job, name, attempt));
    EXPECT_EQ(gang.wait(), std::vector<int>(static_cast<std::size_t>(job.ranks), 0)) << gang.log(0);
  }

  // Starts an attempt and sends `signal_number` to `rank` in mid-run, after a checkpoint. Where the
  // machine let the run end before the signal, the run is begun anew.
  std::vector<int> interrupt(const TinyJob& job, const std::string& name, int rank,
                             int signal_number) const {
    constexpr int kMaxRuns = 20;
    for (int run = 0; run < kMaxRuns; ++run) {
      std::filesystem::remove_all(folder_.path(name));
      Gang gang(options(job, name));
      gang.wait_until([&] {
        return std::filesystem::exists(folder_.path(name) + "/checkpoints/step-8/manifest.json");
      });
      gang.send(rank, signal_number);
      const std::vector<int> exit_codes = gang.wait();
      if (exit_codes[static_cast<std::size_t>(rank)] != 0) return exit_codes;
    }
    ADD_FAILURE() << "the signal never came in mid-run";
    return {};
  }

  void expect_same(const std::string& name, const std::string& reference) const {
    const std::string weights = read_text(folder_.path(reference) + "/model/model.safetensors");
    ASSERT_FALSE(weights.empty());
    EXPECT_TRUE(read_text(folder_.path(name) + "/model/model.safetensors") == weights)
        << name << ": weights differ from " << reference;
    EXPECT_EQ(read_curve(folder_.path(name)), read_curve(folder_.path(reference)));
  }

  TemporaryFolder folder_;
};

TEST_F(SameBitsTest, OnAnyRankCountStrategyAndBackend) {
  train({.ranks = 1}, "reference");
  ASSERT_EQ(read_curve(folder_.path("reference")).size(), 12u);
  for (const std::string strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const std::string backend : {"shared-memory", "gloo"}) {
        const std::string name = strategy + "-" + std::to_string(ranks) + "-" + backend;
        train({.ranks = ranks, .strategy = strategy, .backend = backend}, name);
        expect_same(name, "reference");
      }
    }
  }
}

TEST_F(SameBitsTest, WithTiedEmbeddings) {
  train({.ranks = 1, .tie_word_embeddings = true}, "reference");
  for (const int ranks : {3, 4}) {
    for (const std::string strategy : {"ddp", "zero3"}) {
      const std::string name = strategy + "-" + std::to_string(ranks);
      train({.ranks = ranks, .strategy = strategy, .tie_word_embeddings = true}, name);
      expect_same(name, "reference");
    }
  }
}

TEST_F(SameBitsTest, WithActivationCheckpointing) {
  train({.ranks = 1}, "reference");
  for (const std::string mode : {"block", "selective"}) {
    for (const std::string strategy : {"ddp", "zero3"}) {
      const std::string name = mode + "-" + strategy;
      train({.ranks = 3, .strategy = strategy, .activation_checkpointing = mode}, name);
      expect_same(name, "reference");
    }
  }
}

TEST_F(SameBitsTest, AfterKillingARankInMidRun) {
  const TinyJob job{.ranks = 3, .strategy = "zero3", .steps = 80};
  train({.ranks = 1, .steps = 80}, "reference");
  const std::vector<int> exit_codes = interrupt(job, "killed", 1, SIGKILL);
  EXPECT_EQ(exit_codes, (std::vector<int>{83, -SIGKILL, 83})) << "survivors report PeerLost";
  train(job, "killed", 1);
  expect_same("killed", "reference");
}

TEST_F(SameBitsTest, AfterStoppingAtFourRanksAndResumingAtTwo) {
  train({.ranks = 1, .steps = 80}, "reference");
  const TinyJob stopped{.ranks = 4, .strategy = "zero3", .steps = 80};
  EXPECT_EQ(interrupt(stopped, "stopped", 2, SIGTERM), (std::vector<int>{85, 85, 85, 85}))
      << "one rank's wish stops all, at the same step";
  train({.ranks = 2, .strategy = "ddp", .steps = 80}, "stopped", 1);
  expect_same("stopped", "reference");
}

TEST_F(SameBitsTest, AfterTheNewestCheckpointWasTruncated) {
  train({.ranks = 1, .steps = 80}, "reference");
  const TinyJob job{.ranks = 2, .strategy = "zero3", .steps = 80};
  interrupt(job, "torn", 0, SIGTERM);
  int64_t newest = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path("torn") + "/checkpoints")) {
    const std::string step = entry.path().filename().string();
    if (step.starts_with("step-")) newest = std::max<int64_t>(newest, std::stoll(step.substr(5)));
  }
  const std::string shard =
      folder_.path("torn") + "/checkpoints/step-" + std::to_string(newest) + "/rank-1.bin";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) / 2);

  Gang gang(options(job, "torn", 1));
  ASSERT_EQ(gang.wait(), (std::vector<int>{0, 0})) << gang.log(0);
  EXPECT_NE(gang.log(0).find("checkpoint damaged, using an older one"), std::string::npos)
      << gang.log(0);
  EXPECT_NE(gang.log(0).find("rank-1.bin"), std::string::npos) << gang.log(0);
  expect_same("torn", "reference");
}

TEST_F(SameBitsTest, SigtermBeforeTheFirstStepEndsAtOnceAndSigintIsIgnored) {
  GangOptions alone = options({.ranks = 1}, "waiting");
  alone.job["ranks"] = 2;
  alone.env["WORLD_SIZE"] = "2";  // rank 1 never comes: rank 0 waits for it
  Gang gang(alone);
  ASSERT_TRUE(gang.wait_until([&] { return gang.log(0).find("serving") != std::string::npos; }));
  gang.send(0, SIGINT);
  gang.send(0, SIGTERM);
  EXPECT_EQ(gang.wait(), std::vector<int>{85}) << gang.log(0);
  ASSERT_TRUE(gang.last_words(0));
  EXPECT_EQ(gang.last_words(0)->reason, "Preempted");
}

TEST_F(SameBitsTest, ARestartOfAFinishedRunSucceedsAndTouchesNothing) {
  train({.ranks = 2}, "done");
  const auto written = std::filesystem::last_write_time(folder_.path("done") + "/metrics.jsonl");
  train({.ranks = 2}, "done", 1);
  EXPECT_EQ(std::filesystem::last_write_time(folder_.path("done") + "/metrics.jsonl"), written);
}

}  // namespace
}  // namespace lockstep::equivalence
