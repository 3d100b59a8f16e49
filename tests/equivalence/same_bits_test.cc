// The promise of the product: weights and losses are the same bits on any number of ranks, with any
// strategy and backend, and after every kind of interruption.
#include "tests/equivalence/same_bits.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <gtest/gtest.h>
#include <signal.h>

namespace lockstep::equivalence {
namespace {

// A cover of all pairs (strategy, ranks), (strategy or ranks, backend), and nearly all with bucket
// and prefetch; same_bits_full_test runs the product.
TEST_F(SameBitsTest, OnAnyRankCountStrategyAndBackend) {
  train({.ranks = 1, .micro_batches = 24}, "reference");
  ASSERT_EQ(read_curve(folder_.path("reference")).size(), 12u);
  int64_t run = 0;
  for (const Sharing& sharing : all_sharings()) {
    expect_same_bits_of({.ranks = sharing.ranks,
                         .strategy = sharing.strategy,
                         .shard_ranks = sharing.shard_ranks,
                         .bucket_bytes = run % 3 == 0 ? 65536 : 26214400,
                         .prefetch_units = static_cast<int>(run % 4),
                         .micro_batches = 24,
                         .backend = run % 2 == 0 ? "shared-memory" : "gloo"});
    ++run;
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

// Saved at step 8 by one way of sharing, finished by another.
TEST_F(SameBitsTest, AfterResumingUnderAnotherStrategyAndRankCount) {
  train({.ranks = 1, .micro_batches = 24}, "reference");
  const std::vector<std::array<Sharing, 2>> pairs = {
      {Sharing{"ddp", 0, 2}, {"zero1", 0, 3}},   {Sharing{"zero1", 0, 4}, {"zero2", 0, 2}},
      {Sharing{"zero2", 0, 3}, {"zero3", 0, 8}}, {Sharing{"zero3", 0, 4}, {"zero1", 0, 2}},
      {Sharing{"zero3", 2, 4}, {"ddp", 0, 1}},   {Sharing{"zero1", 0, 2}, {"zero3", 2, 8}}};
  for (const auto& [before, after] : pairs) {
    const std::string name = before.strategy + std::to_string(before.ranks) + "-" + after.strategy +
                             std::to_string(after.ranks);
    train({.ranks = before.ranks,
           .strategy = before.strategy,
           .shard_ranks = before.shard_ranks,
           .micro_batches = 24},
          name);
    forget_after_step(name, 8);
    train({.ranks = after.ranks,
           .strategy = after.strategy,
           .shard_ranks = after.shard_ranks,
           .micro_batches = 24},
          name, 1);
    expect_same(name, "reference");
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

TEST_F(SameBitsTest, WithMomentumAloneAfterAStopAndAResumeElsewhere) {
  train({.ranks = 1, .steps = 80, .optimizer = "sgd"}, "reference");
  const TinyJob stopped{.ranks = 3, .strategy = "zero3", .steps = 80, .optimizer = "sgd"};
  EXPECT_EQ(interrupt(stopped, "stopped", 1, SIGTERM), (std::vector<int>{85, 85, 85}));
  train({.ranks = 2, .strategy = "ddp", .steps = 80, .optimizer = "sgd"}, "stopped", 1);
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
