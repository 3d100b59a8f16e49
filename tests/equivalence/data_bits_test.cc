// The same bits whatever the format of the data, the threads that read it and the ranks that share
// it: packed documents, documents alone, validation, early stopping, epochs, interruptions.
#include <cstdlib>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::equivalence {
namespace {

using nlohmann::json;
using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::read_text;
using support::TemporaryFolder;
using support::TinyJob;
using support::write_text;

class DataBitsTest : public testing::Test {
 protected:
  // 400 documents of 1 to about 140 bytes: a sample of 48 tokens holds several, or a part of one.
  void SetUp() override {
    const std::string text = support::tiny_corpus(60000);
    std::string lines;
    std::size_t at = 0;
    for (int i = 0; i < 400; ++i) {
      const std::size_t size = 1 + static_cast<std::size_t>(i) * 37 % 140;
      const std::string document = text.substr(at, size);
      at += size;
      lines += json{{"id", i}, {"text", document}}.dump() + "\n";
      std::string name = std::to_string(1000 + i);
      write_text(folder_.path("texts-" + name + ".txt"), document);
    }
    write_text(folder_.path("lines.jsonl"), lines);
    write_text(folder_.path("held-out.txt"), support::tiny_corpus(3000));
  }

  // `changes` to the training configuration, as a JSON merge patch; null for none.
  GangOptions options(const TinyJob& job, const json& changes, const std::string& name,
                      int attempt = 0) const {
    TinyJob with_data = job;
    with_data.data = folder_.path("lines.jsonl");
    GangOptions gang{.runtime = support::kRuntimeProgram,
                     .job = to_json(with_data),
                     .folder = folder_.path(name + ".files"),
                     .output = folder_.path(name),
                     .num_ranks = job.ranks,
                     .attempt = attempt};
    if (!changes.is_null()) gang.job["train"].merge_patch(changes);
    return gang;
  }

  void train(const TinyJob& job, const json& changes, const std::string& name,
             int attempt = 0) const {
    Gang gang(options(job, changes, name, attempt));
    EXPECT_EQ(gang.wait(), std::vector<int>(static_cast<std::size_t>(job.ranks), 0)) << gang.log(0);
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

TEST_F(DataBitsTest, PackedDocumentsOnAnyRankCountStrategyAndThreads) {
  train({.ranks = 1}, {}, "reference");
  ASSERT_EQ(read_curve(folder_.path("reference")).size(), 12u);
  train({.ranks = 1}, {{"data", {{"loaderThreads", 0}}}}, "inline");
  expect_same("inline", "reference");
  for (const int ranks : {2, 3}) {
    for (const std::string strategy : {"ddp", "zero3"}) {
      const std::string name = strategy + std::to_string(ranks);
      train({.ranks = ranks, .strategy = strategy},
            {{"data", {{"loaderThreads", 3}, {"prefetchBatches", 5}}}}, name);
      expect_same(name, "reference");
    }
  }
}

TEST_F(DataBitsTest, TextFilesJsonLinesAndTokenFilesTrainTheSame) {
  train({.ranks = 1}, {}, "reference");
  train({.ranks = 2}, {{"data", {{"train", folder_.path("texts-*.txt")}}}}, "text");
  expect_same("text", "reference");
  std::string token_file;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path("reference/tokens"))) {
    ASSERT_TRUE(token_file.empty()) << "one file for one corpus";
    token_file = entry.path().string();
  }
  std::filesystem::copy_file(token_file, folder_.path("made.tokens"));
  train({.ranks = 2}, {{"data", {{"train", folder_.path("made.tokens")}, {"format", "tokens"}}}},
        "tokens");
  expect_same("tokens", "reference");
}

// Words of the corpus as tokens, by a tokenizer.json.
TEST_F(DataBitsTest, TextJsonLinesAndTokenFilesOfATokenizerTrainTheSame) {
  const std::string tokenizer = folder_.path("tokenizer");
  std::filesystem::create_directories(tokenizer);
  json vocabulary = {{"<unk>", 0}, {"<end>", 1}};
  for (char letter = ' '; letter <= '~'; ++letter) vocabulary[std::string(1, letter)] = letter;
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", "."}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  write_text(tokenizer + "/tokenizer.json",
             json{{"version", "1.0"},
                  {"added_tokens", json::array()},
                  {"pre_tokenizer", split},
                  {"model", {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", vocabulary}}}}
                 .dump());
  write_text(tokenizer + "/tokenizer_config.json", "{\"eos_token\": \"<end>\"}");
  const json with = {{"tokenizer", {{"type", "hf"}, {"path", tokenizer}}}};
  train({.ranks = 1}, with, "reference");
  train({.ranks = 1}, {}, "bytes");
  EXPECT_NE(read_curve(folder_.path("reference")), read_curve(folder_.path("bytes")));
  json text = with;
  text["data"] = {{"train", folder_.path("texts-*.txt")}};
  train({.ranks = 3, .strategy = "zero3"}, text, "text");
  expect_same("text", "reference");
  const std::string made = folder_.path("made.tokens");
  const std::string command = std::string(support::kRuntimeProgram) + " tokenize " +
                              folder_.path("lines.jsonl") + " --tokenizer " + tokenizer +
                              " --output " + made + " >" + folder_.path("said") + " 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << read_text(folder_.path("said"));
  json tokens = with;
  tokens["data"] = {{"train", made}, {"format", "tokens"}};
  train({.ranks = 2}, tokens, "tokens");
  expect_same("tokens", "reference");
  const std::string model = folder_.path("reference/model");
  EXPECT_EQ(read_text(model + "/tokenizer.json"), read_text(tokenizer + "/tokenizer.json"));
  EXPECT_EQ(json::parse(read_text(model + "/config.json")).at("eos_token_id"), 1);
}

// One document of all texts gives other losses: the borders are seen.
TEST_F(DataBitsTest, BordersMatter) {
  train({.ranks = 1}, {}, "reference");
  std::string joined;
  for (int i = 1000; i < 1400; ++i) {
    if (i > 1000) joined.push_back('\0');
    joined += read_text(folder_.path("texts-" + std::to_string(i) + ".txt"));
  }
  write_text(folder_.path("joined.jsonl"), json{{"text", joined}}.dump() + "\n");
  train({.ranks = 1}, {{"data", {{"train", folder_.path("joined.jsonl")}}}}, "joined");
  const std::vector<std::string> with = read_curve(folder_.path("reference"));
  const std::vector<std::string> without = read_curve(folder_.path("joined"));
  ASSERT_EQ(with.size(), without.size());
  for (std::size_t i = 0; i < with.size(); ++i) EXPECT_NE(with[i], without[i]);
}

TEST_F(DataBitsTest, DocumentsAloneOnAnyRankCount) {
  const json alone = {{"data", {{"packing", false}}}};
  train({.ranks = 1}, alone, "reference");
  // Every step has another number of tokens with loss; the sum over ranks is by index all the same.
  std::set<int64_t> loss_tokens;
  std::istringstream lines(read_text(folder_.path("reference/metrics.jsonl")));
  for (std::string line; std::getline(lines, line);) {
    loss_tokens.insert(json::parse(line).at("loss_tokens").get<int64_t>());
  }
  EXPECT_GT(loss_tokens.size(), 1u);
  EXPECT_LT(*loss_tokens.rbegin(), 12 * 48);
  train({.ranks = 2, .strategy = "zero3"}, alone, "two");
  expect_same("two", "reference");
  train({.ranks = 3}, alone, "three");
  expect_same("three", "reference");
}

// With tied embeddings, which a forward without a backward borrows too.
// 62 samples of validation are 62 micro-batches: one of 3 ranks has an empty one in the last round.
TEST_F(DataBitsTest, ValidationAndEpochsOnAnyRankCount) {
  json changes = {{"data", {{"validation", folder_.path("held-out.txt")}}},
                  {"evaluation", {{"everySteps", 5}}},
                  {"model", {{"config", {{"tie_word_embeddings", true}}}}},
                  {"epochs", 0.25},
                  {"steps", nullptr}};
  train({.ranks = 1}, changes, "reference");
  const std::vector<std::string> curve = read_curve(folder_.path("reference"));
  ASSERT_EQ(curve.size(), 12u + 3u) << "a quarter epoch is 12 steps; evaluated at 5, 10, 12";
  for (const std::size_t line : {5u, 11u, 14u}) {
    EXPECT_NE(curve[line].find("\"validation_loss\""), std::string::npos) << curve[line];
  }
  for (const int ranks : {2, 3}) {
    const std::string name = std::to_string(ranks);
    train({.ranks = ranks, .strategy = ranks == 2 ? "zero3" : "ddp"}, changes, name);
    expect_same(name, "reference");
  }
  // Measuring leaves no trace in the weights.
  changes["data"].erase("validation");
  changes.erase("evaluation");
  train({.ranks = 1}, changes, "unmeasured");
  EXPECT_TRUE(read_text(folder_.path("unmeasured/model/model.safetensors")) ==
              read_text(folder_.path("reference/model/model.safetensors")));
}

// A learning rate of 0 never gets better: the first evaluation is the best, two more end it.
TEST_F(DataBitsTest, EarlyStoppingEndsAllRanksAtTheSameStepAndARestartTrainsNoFurther) {
  const json changes = {{"data", {{"validation", folder_.path("held-out.txt")}}},
                        {"evaluation", {{"everySteps", 2}, {"earlyStoppingPatience", 2}}},
                        {"optimizer", {{"lr", 0}}},
                        {"export", {{"atEnd", false}}}};
  const TinyJob job{.ranks = 2, .steps = 40};
  train(job, changes, "stopped");
  const std::vector<std::string> curve = read_curve(folder_.path("stopped"));
  EXPECT_EQ(curve.size(), 6u + 3u);
  EXPECT_EQ(json::parse(read_text(folder_.path("stopped/finished.json"))).at("step"), 6);
  EXPECT_TRUE(std::filesystem::exists(folder_.path("stopped/checkpoints/step-6/manifest.json")));
  std::filesystem::remove(folder_.path("stopped/finished.json"));  // as if it died before that
  train(job, changes, "stopped", 1);
  EXPECT_EQ(read_curve(folder_.path("stopped")), curve);
}

TEST_F(DataBitsTest, AKilledRunGoesOnWithTheSameDataAndEvaluationsOnOtherRanks) {
  const json changes = {{"data", {{"validation", folder_.path("held-out.txt")}}},
                        {"evaluation", {{"everySteps", 3}}}};
  const TinyJob job{.ranks = 1, .steps = 70};  // past the end of the first epoch, in step 50
  train(job, changes, "reference");
  constexpr int kMaxRuns = 20;
  bool was_killed = false;
  for (int run = 0; run < kMaxRuns && !was_killed; ++run) {
    std::filesystem::remove_all(folder_.path("killed"));
    TinyJob three = job;
    three.ranks = 3;
    three.strategy = "zero3";
    Gang gang(options(three, changes, "killed"));
    gang.wait_until([&] {
      return std::filesystem::exists(folder_.path("killed/checkpoints/step-8/manifest.json"));
    });
    gang.send(1, SIGKILL);
    was_killed = gang.wait()[1] != 0;
  }
  ASSERT_TRUE(was_killed) << "the signal never came in mid-run";
  TinyJob two = job;
  two.ranks = 2;
  train(two, changes, "killed", 1);
  expect_same("killed", "reference");
}

}  // namespace
}  // namespace lockstep::equivalence
