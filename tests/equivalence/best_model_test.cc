// Early stopping exports the model of the lowest validation loss: the bits that a run has which
// ends at that step, on any rank count, after any restart.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::equivalence {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using support::Gang;
using support::GangOptions;
using support::read_text;
using support::TemporaryFolder;
using support::TinyJob;

// What is learnt of the corpus helps with its reverse, and soon no more: the loss on that is lowest
// after step 10, and three evaluations later, at step 16, the run ends.
class BestModelTest : public testing::Test {
 protected:
  void SetUp() override {
    support::write_text(folder_.path("train.txt"), support::tiny_corpus(1500));
    std::string reversed = support::tiny_corpus(3000);
    std::reverse(reversed.begin(), reversed.end());
    support::write_text(folder_.path("held-out.txt"), reversed);
  }

  json changes() const {
    return {{"data", {{"validation", folder_.path("held-out.txt")}}},
            {"evaluation", {{"everySteps", 2}, {"earlyStoppingPatience", 3}}},
            {"optimizer", {{"lr", 1e-2}}},
            {"schedule", {{"name", "constant"}}},
            {"checkpoint", {{"everySteps", 4}, {"keep", 1}}}};
  }

  struct Ended {
    std::vector<int> exit_codes;
    std::string log;  // of rank 0
    std::string last_words;
  };
  Ended run(TinyJob job, const json& with, const std::string& name, int attempt = 0) const {
    job.data = folder_.path("train.txt");
    job.nvme_path = folder_.path("");
    if (job.steps == TinyJob().steps) job.steps = 60;
    GangOptions options{.runtime = support::kRuntimeProgram,
                        .job = to_json(job),
                        .folder = folder_.path(name + ".files"),
                        .output = folder_.path(name),
                        .num_ranks = job.ranks,
                        .attempt = attempt};
    options.job["train"].merge_patch(with);
    Gang gang(std::move(options));
    Ended ended{.exit_codes = gang.wait(), .log = gang.log(0), .last_words = ""};
    if (gang.last_words(0)) ended.last_words = gang.last_words(0)->message;
    return ended;
  }
  Ended train(const TinyJob& job, const json& with, const std::string& name,
              int attempt = 0) const {
    Ended ended = run(job, with, name, attempt);
    EXPECT_EQ(ended.exit_codes, std::vector<int>(static_cast<std::size_t>(job.ranks), 0))
        << ended.log;
    return ended;
  }

  std::string model(const std::string& name) const {
    return read_text(folder_.path(name) + "/model/model.safetensors");
  }
  void expect_exported(const std::string& name, int64_t step, const std::string& reference) const {
    EXPECT_EQ(json::parse(read_text(folder_.path(name) + "/finished.json")).at("exportedStep"),
              step);
    ASSERT_FALSE(model(reference).empty());
    EXPECT_TRUE(model(name) == model(reference)) << name;
  }
  std::set<std::string> checkpoints(const std::string& name) const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path(name) + "/checkpoints")) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }
  int64_t last_step(const std::string& name) const {
    return json::parse(read_text(folder_.path(name) + "/finished.json")).at("step");
  }
  std::string checkpoint(const std::string& name, int64_t step) const {
    return folder_.path(name) + "/checkpoints/step-" + std::to_string(step);
  }
  json from(const std::string& folder) const {
    json with = changes();
    with["checkpoint"]["resume"] = folder;
    return with;
  }
  void train_and_keep_all(const std::string& name) const {
    json keeps_all = changes();
    keeps_all["checkpoint"]["keep"] = 9;
    train({}, keeps_all, name);
  }
  // As if the run had ended before its export.
  void forget_export(const std::string& name) const {
    fs::remove(folder_.path(name) + "/finished.json");
    fs::remove_all(folder_.path(name) + "/model");
  }
  // The bits to expect: of a run that ends at step 10.
  void train_until_the_best(const TinyJob& job = {}) const {
    json until = changes();
    until["evaluation"] = {{"everySteps", 0}};
    TinyJob ten = job;
    ten.steps = 10;
    train(ten, until, "ten");
  }

  TemporaryFolder folder_;
};

TEST_F(BestModelTest, IsExportedOnAnyRankCountStrategyAndOffload) {
  train_until_the_best();
  const std::string log = train({}, changes(), "one").log;
  expect_exported("one", 10, "ten");
  EXPECT_NE(log.find("info exported "), std::string::npos);
  EXPECT_NE(log.find("step=10 reason=\"its validation loss "), std::string::npos) << log;
  EXPECT_NE(log.find("the last 3 evaluations were no better"), std::string::npos) << log;
  EXPECT_EQ(checkpoints("one"), (std::set<std::string>{"step-10", "step-16"}));
  train({.ranks = 3, .strategy = "zero3"}, changes(), "three");
  expect_exported("three", 10, "ten");
  train({.ranks = 2, .strategy = "zero1", .offload_optimizer = "nvme"}, changes(), "offloaded");
  expect_exported("offloaded", 10, "ten");
}

TEST_F(BestModelTest, IsExportedFromMastersInBf16AndWhenAllStepsWereMade) {
  const TinyJob job{.ranks = 2, .strategy = "zero3", .precision = "bf16"};
  json all_steps = changes();
  all_steps["evaluation"]["earlyStoppingPatience"] = 1000;
  TinyJob short_job = job;
  short_job.steps = 16;
  train(short_job, all_steps, "all");
  const auto best =
      json::parse(read_text(folder_.path("all") + "/finished.json")).at("exportedStep");
  ASSERT_LT(best, 16);
  TinyJob until = job;
  until.ranks = 1;
  until.strategy = "ddp";
  until.steps = best;
  train(until, {{"optimizer", {{"lr", 1e-2}}}, {"schedule", {{"name", "constant"}}}}, "until");
  expect_exported("all", best, "until");
}

TEST_F(BestModelTest, IsExportedAfterARestartOnOtherRanksFromAnyCheckpoint) {
  train_until_the_best();
  train({}, changes(), "run");
  forget_export("run");
  train({.ranks = 2, .strategy = "zero3"}, changes(), "run", 1);  // nothing is left but the export
  expect_exported("run", 10, "ten");
  forget_export("run");
  fs::remove_all(folder_.path("run") + "/checkpoints/step-16");  // it goes on from step 10
  train({.ranks = 3}, changes(), "run", 2);
  expect_exported("run", 10, "ten");
  EXPECT_EQ(json::parse(read_text(folder_.path("run") + "/finished.json")).at("step"), 16);
}

// From a named checkpoint the best one comes along, and lasts when the other run is removed;
// patience begins anew, so that a run from one that had stopped trains on.
TEST_F(BestModelTest, ComesAlongFromBesideANamedCheckpoint) {
  train_until_the_best();
  train_and_keep_all("first");
  train({.ranks = 2, .strategy = "zero3"}, from(checkpoint("first", 12)), "second");
  expect_exported("second", 10, "ten");
  EXPECT_EQ(last_step("second"), 18);
  train({}, from(checkpoint("first", 10)), "at-the-best");
  expect_exported("at-the-best", 10, "ten");
  EXPECT_EQ(last_step("at-the-best"), 16);
  fs::rename(folder_.path("second"), folder_.path("moved"));
  fs::remove_all(folder_.path("first"));
  train({.ranks = 3}, from(checkpoint("moved", 18)), "third");
  expect_exported("third", 10, "ten");
  EXPECT_EQ(last_step("third"), 24);
}

// Its weights are those that were just loaded, so nobody looks for it.
TEST_F(BestModelTest, MayBeTheNamedCheckpointItselfWhateverItsFolderIsCalled) {
  train_until_the_best();
  train_and_keep_all("first");
  fs::copy(checkpoint("first", 10), folder_.path("base"), fs::copy_options::recursive);
  fs::remove_all(folder_.path("first"));
  const std::string log = train({.ranks = 2}, from(folder_.path("base")), "run").log;
  EXPECT_EQ(log.find("best checkpoint is gone"), std::string::npos) << log;
  expect_exported("run", 10, "ten");
}

TEST_F(BestModelTest, ThatIsDamagedIsTakenAgainFromBesideTheNamedCheckpoint) {
  train_until_the_best();
  train_and_keep_all("first");
  train({}, from(checkpoint("first", 12)), "second");
  forget_export("second");
  fs::resize_file(checkpoint("second", 10) + "/rank-0.bin", 5000);
  const std::string log = train({.ranks = 2}, from(checkpoint("first", 12)), "second", 1).log;
  EXPECT_NE(log.find("best checkpoint not usable, taking another along"), std::string::npos) << log;
  expect_exported("second", 10, "ten");
  EXPECT_EQ(checkpoints("second"),
            (std::set<std::string>{"damaged-step-10", "step-10", "step-18"}));
}

// Losses compare where the data is the same, wherever it lies.
TEST_F(BestModelTest, IsThatOfTheSameValidationDataOnly) {
  train_until_the_best();
  train({}, changes(), "run");
  forget_export("run");
  json elsewhere = changes();
  elsewhere["data"]["validation"] = folder_.path("moved/held-out.txt");
  fs::create_directories(folder_.path("moved"));
  fs::rename(folder_.path("held-out.txt"), folder_.path("moved/held-out.txt"));
  const std::string same = train({}, elsewhere, "run", 1).log;
  EXPECT_EQ(same.find("evaluations so far do not count"), std::string::npos) << same;
  expect_exported("run", 10, "ten");
  EXPECT_EQ(last_step("run"), 16);

  forget_export("run");
  support::write_text(folder_.path("moved/held-out.txt"), support::tiny_corpus(3000));
  TinyJob short_job;
  short_job.steps = 20;
  const std::string other = train(short_job, elsewhere, "run", 2).log;
  EXPECT_NE(other.find("evaluations so far do not count"), std::string::npos) << other;
  EXPECT_NE(other.find("holds other data than then"), std::string::npos) << other;
  EXPECT_GT(last_step("run"), 16);
}

TEST_F(BestModelTest, ThatIsGoneOrDamagedIsSaidAndTheRunEndsAtTheSameStep) {
  train({.strategy = "zero1"}, changes(), "run");
  forget_export("run");
  const std::string best = folder_.path("run") + "/checkpoints/step-10";
  {
    std::fstream shard(best + "/rank-0.bin", std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(5000);
    shard.put('\x55');
  }
  const Ended damaged = run({.strategy = "zero1"}, changes(), "run", 1);
  EXPECT_EQ(damaged.exit_codes, (std::vector<int>{74})) << damaged.log;
  EXPECT_NE(damaged.last_words.find("the best checkpoint: "), std::string::npos);
  EXPECT_NE(damaged.last_words.find(best + "/rank-0.bin"), std::string::npos) << damaged.last_words;

  fs::remove_all(best);  // as the hint says
  const Ended gone = train({.strategy = "zero1"}, changes(), "run", 2);
  EXPECT_NE(gone.log.find("best checkpoint is gone"), std::string::npos) << gone.log;
  const json finished = json::parse(read_text(folder_.path("run") + "/finished.json"));
  EXPECT_EQ(finished.at("step"), 16);
  EXPECT_EQ(finished.at("exportedStep"), 16);
}

}  // namespace
}  // namespace lockstep::equivalence
