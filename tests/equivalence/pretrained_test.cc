// Training that begins with the weights of a directory: the same bits however the ranks share them,
// no bit lost on the way from export to model.path, and a typed end where the directory is wrong.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/equivalence/same_bits.h"

namespace lockstep::equivalence {
namespace {

using common::ExitCode;
using nlohmann::json;
using support::write_text;
using testing::HasSubstr;

class PretrainedTest : public SameBitsTest {
 protected:
  // A directory: the export of a short run. Named "base".
  void make_base(const json& more = json::object()) const {
    TinyJob job{.ranks = 1, .steps = 2, .layers = 3};
    job.more = more;
    train(job, "base");
  }

  // What is merged into `train` so that the model is that of `name`'s export, or of `path`.
  json from(const std::string& name) const { return from_path(folder_.path(name) + "/model"); }
  static json from_path(const std::string& path) {
    return {{"model", {{"path", path}, {"config", nullptr}, {"init", nullptr}}}};
  }

  // The rest of the line of a run's last evaluation, from the loss on.
  std::string validation_loss(const std::string& name) const {
    const std::vector<std::string> curve = read_curve(folder_.path(name));
    EXPECT_THAT(curve.back(), HasSubstr("validation_loss"));
    return curve.back().substr(curve.back().find("validation_loss"));
  }

  void expect_refusal(const json& more, ExitCode code, const std::string& said,
                      const json& also = json::object()) const {
    TinyJob job{.ranks = 1, .steps = 2};
    job.more = more;
    job.more.merge_patch(also);
    std::filesystem::remove_all(folder_.path("refused"));
    Gang gang(options(job, "refused"));
    EXPECT_EQ(gang.wait(), std::vector<int>{static_cast<int>(code)}) << gang.log(0);
    const auto words = gang.last_words(0);
    ASSERT_TRUE(words) << gang.log(0);
    EXPECT_EQ(words->reason, common::reason_of(code));
    EXPECT_THAT(words->message, HasSubstr(said));
    EXPECT_FALSE(std::filesystem::exists(folder_.path("refused") + "/model"));
    EXPECT_FALSE(std::filesystem::exists(folder_.path("refused") + "/checkpoints/step-2"));
  }
};

TEST_F(PretrainedTest, SameBitsOnAnyRankCountAndStrategy) {
  make_base();
  for (const std::string precision : {"fp32", "bf16"}) {
    TinyJob job{.ranks = 1, .steps = 4, .precision = precision, .more = from("base")};
    train(job, precision);
    for (const Sharing& sharing : std::vector<Sharing>{
             {"ddp", 0, 3}, {"zero1", 0, 2}, {"zero2", 0, 4}, {"zero3", 0, 3}, {"zero3", 2, 4}}) {
      job.ranks = sharing.ranks;
      job.strategy = sharing.strategy;
      job.shard_ranks = sharing.shard_ranks;
      job.offload_optimizer = sharing.strategy == "zero1" ? "nvme" : "none";
      const std::string name = precision + name_of(sharing) + std::to_string(sharing.ranks);
      train(job, name);
      expect_same(name, precision);
    }
  }
}

// With a rate of 0 nothing moves: the export is the file that was read, and the model that is
// validated is the one that was trained before.
TEST_F(PretrainedTest, AnExportGoesOnAsTheModelThatItWas) {
  const json validated = {{"data", {{"validation", folder_.path("corpus.txt")}}}};
  make_base(validated);
  TinyJob still{.ranks = 3, .strategy = "zero3", .steps = 1, .lr = 0, .more = from("base")};
  still.more.merge_patch(validated);
  train(still, "again");
  EXPECT_TRUE(read_text(weights_path("again")) == read_text(weights_path("base")));
  EXPECT_EQ(validation_loss("again"), validation_loss("base"));

  json rounded = from("base");
  rounded["export"] = {{"dtype", "bf16"}};
  still.more = rounded;
  train(still, "bf16");
  still.more = from("bf16");
  still.more["export"] = {{"dtype", "bf16"}};
  train(still, "bf16 again");
  EXPECT_TRUE(read_text(weights_path("bf16 again")) == read_text(weights_path("bf16")));
}

TEST_F(PretrainedTest, InitRandomTakesTheConfigAlone) {
  const TinyJob plain{.ranks = 1, .steps = 2, .layers = 3};
  train(plain, "base");
  json more = from("base");
  more["model"]["init"] = "random";
  const std::string weights = read_text(weights_path("base"));
  std::filesystem::remove(weights_path("base"));
  train({.ranks = 2, .steps = 2, .more = more}, "random");
  EXPECT_TRUE(read_text(weights_path("random")) == weights);
}

TEST_F(PretrainedTest, ARestartGoesOnFromItsCheckpointAndNotFromOtherWeights) {
  make_base();
  const TinyJob job{.ranks = 2, .strategy = "zero3", .more = from("base")};
  train({.ranks = 1, .more = from("base")}, "reference");
  train(job, "stopped");
  forget_after_step("stopped", 8);
  train(job, "stopped", 1);
  expect_same("stopped", "reference");

  // The same shapes, other values.
  train({.ranks = 1, .steps = 3, .layers = 3}, "other");
  GangOptions changed = options({.ranks = 1, .more = from("other")}, "stopped");
  changed.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
  Gang gang(changed);
  EXPECT_EQ(gang.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidConfig)});
  EXPECT_THAT(gang.last_words(0)->message, HasSubstr("model.path holds other weights than then"));
}

TEST_F(PretrainedTest, WhatCannotBeLoadedEndsWithATypedCodeAndItsName) {
  make_base();
  const std::string model = folder_.path("base") + "/model";
  const std::string weights = weights_path("base");
  const std::string sound = read_text(weights);
  const std::string config = read_text(model + "/config.json");

  expect_refusal(from_path(folder_.path("nowhere")), ExitCode::kInputNotFound,
                 folder_.path("nowhere") + "/config.json");
  json other = json::parse(config);
  other["model_type"] = "mamba";
  write_text(model + "/config.json", other.dump());
  expect_refusal(from("base"), ExitCode::kInvalidConfig, "model_type: found \"mamba\"");
  other["model_type"] = "llama";
  other["intermediate_size"] = 96;
  write_text(model + "/config.json", other.dump());
  expect_refusal(from("base"), ExitCode::kInvalidData,
                 "tensor model.layers.0.mlp.gate_proj.weight has shape [80, 48]");
  other["intermediate_size"] = 80;
  other["num_hidden_layers"] = 2;
  write_text(model + "/config.json", other.dump());
  expect_refusal(from("base"), ExitCode::kInvalidData, "is none of the model's");
  write_text(model + "/config.json", config);

  write_text(weights, sound.substr(0, sound.size() - 4));
  expect_refusal(from("base"), ExitCode::kInvalidData, "not a sound safetensors file");
  write_text(weights, std::string(8, '\x7f') + sound.substr(8));
  expect_refusal(from("base"), ExitCode::kInvalidData, "exceeds the file");
  std::filesystem::remove(weights);
  expect_refusal(from("base"), ExitCode::kInputNotFound, "neither model.safetensors nor");
  write_text(weights, sound);
}

// Bytes are not the tokens of such a model; tokens that are given are, and its files go along.
TEST_F(PretrainedTest, ATokenizerBesideTheWeightsNeedsTokensAndIsCarriedOver) {
  make_base();
  const std::string model = folder_.path("base") + "/model";
  write_text(model + "/tokenizer.json", "{\"version\": \"1.0\"}");
  write_text(model + "/generation_config.json", "{\"eos_token_id\": 2}");
  json config = json::parse(read_text(model + "/config.json"));
  config["eos_token_id"] = {2, 5};
  write_text(model + "/config.json", config.dump());
  expect_refusal(from("base"), ExitCode::kInvalidConfig, "tokenizer of its own");

  std::ofstream rows(folder_.path("rows.jsonl"));
  for (int row = 0; row < 24; ++row) {
    json ids = json::array();
    for (int i = 0; i < 48; ++i) ids.push_back((row * 7 + i * i) % 256);
    rows << json{{"input_ids", ids}}.dump() << "\n";
  }
  rows.close();
  json more = from("base");
  more["data"] = {{"train", folder_.path("rows.jsonl")}, {"format", "tokens"}};
  GangOptions tokens = options({.ranks = 2, .steps = 2}, "tokens");
  tokens.job["train"].merge_patch(more);
  Gang gang(tokens);
  EXPECT_EQ(gang.wait(), (std::vector<int>{0, 0})) << gang.log(0);
  const std::string exported = folder_.path("tokens") + "/model";
  EXPECT_EQ(read_text(exported + "/tokenizer.json"), "{\"version\": \"1.0\"}");
  EXPECT_EQ(read_text(exported + "/generation_config.json"), "{\"eos_token_id\": 2}");
  EXPECT_EQ(json::parse(read_text(exported + "/config.json")).at("eos_token_id"), json({2, 5}));

  std::filesystem::remove(model + "/generation_config.json");
  std::filesystem::create_directory(model + "/generation_config.json");  // opens, is not read
  expect_refusal(more, ExitCode::kInternal,
                 "train.model.path: cannot read " + model + "/generation_config.json");
}

}  // namespace
}  // namespace lockstep::equivalence
