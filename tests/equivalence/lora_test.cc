// Adapters beside the weights of a directory: the same bits however ranks share them and wherever
// they stop, checkpoints without the weights that are in the directory, and exports that PEFT's
// format and a merge leave.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/equivalence/same_bits.h"

namespace lockstep::equivalence {
namespace {

using common::ExitCode;
using nlohmann::json;
using support::write_text;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kAdapter[] = "/model/adapter_model.safetensors";
constexpr int64_t kLayers3 = 3;
// Of a rank's worth of every module of a layer: q, k, v, o, gate, up and down of the tiny model.
constexpr int64_t kElemsPerRank = (48 + 48) + 2 * (48 + 24) + (48 + 48) + 3 * (48 + 80);

class LoraTest : public SameBitsTest {
 protected:
  void SetUp() override {
    SameBitsTest::SetUp();
    train({.ranks = 1, .steps = 2, .layers = kLayers3}, "base");
  }

  // What is merged into `train`: adapters beside the export of "base".
  json beside_base(const json& lora = json::object()) const {
    json more = {
        {"model", {{"path", folder_.path("base/model")}, {"config", nullptr}, {"init", nullptr}}},
        {"lora", {{"rank", 4}, {"alpha", 8}, {"dropout", 0.1}}},
        {"data", {{"validation", folder_.path("validation.txt")}}}};
    write_text(folder_.path("validation.txt"), tiny_corpus(500));
    more["lora"].merge_patch(lora);
    return more;
  }

  std::string adapter_of(const std::string& name) const { return folder_.path(name) + kAdapter; }

  void expect_same_adapter(const std::string& name, const std::string& reference) const {
    const std::string weights = read_text(adapter_of(reference));
    ASSERT_FALSE(weights.empty());
    EXPECT_TRUE(read_text(adapter_of(name)) == weights) << name << ": other than " << reference;
    EXPECT_EQ(read_curve(folder_.path(name)), read_curve(folder_.path(reference)));
  }

  std::string last_validation(const std::string& name) const {
    const std::vector<std::string> curve = read_curve(folder_.path(name));
    EXPECT_THAT(curve.back(), HasSubstr("validation_loss"));
    return curve.back().substr(curve.back().find("validation_loss"));
  }
  double last_validation_loss(const std::string& name) const {
    const std::string text = last_validation(name);
    return std::stod(text.substr(text.find(": ") + 2));
  }

  void expect_refusal(const json& more, ExitCode code, const std::string& said) const {
    TinyJob job{.ranks = 2, .steps = 2, .more = more};
    std::filesystem::remove_all(folder_.path("refused"));
    Gang gang(options(job, "refused"));
    EXPECT_EQ(gang.wait().front(), static_cast<int>(code)) << gang.log(0);
    const auto words = gang.last_words(0);
    ASSERT_TRUE(words) << gang.log(0);
    EXPECT_THAT(words->message, HasSubstr(said));
  }
};

TEST_F(LoraTest, SameBitsOnAnyRankCountStrategyAndPrecision) {
  for (const std::string precision : {"fp32", "bf16", "fp16"}) {
    const std::string reference = precision + "-reference";
    train({.ranks = 1, .steps = 4, .precision = precision, .more = beside_base()}, reference);
    EXPECT_EQ(read_curve(folder_.path(reference)).size(), 5U);  // and the evaluation
    std::vector<Sharing> sharings = {{"zero3", 2, 4}};
    for (const std::string strategy : {"ddp", "zero1", "zero2", "zero3"}) {
      for (const int ranks : {1, 2, 4}) {
        if (precision == "fp32" || ranks == 2) sharings.push_back({strategy, 0, ranks});
      }
    }
    for (const Sharing& sharing : sharings) {
      const std::string name = precision + name_of(sharing) + std::to_string(sharing.ranks);
      train({.ranks = sharing.ranks,
             .strategy = sharing.strategy,
             .shard_ranks = sharing.shard_ranks,
             .steps = 4,
             .precision = precision,
             .more = beside_base()},
            name);
      expect_same_adapter(name, reference);
    }
  }
}

TEST_F(LoraTest, CheckpointingOffloadAndPrefetchChangeNoBit) {
  for (const std::string precision : {"fp32", "bf16"}) {
    const std::string reference = precision + "-reference";
    train({.ranks = 1, .steps = 4, .precision = precision, .more = beside_base()}, reference);
    for (const std::string strategy : {"zero1", "zero3"}) {
      const std::string name = precision + strategy;
      train({.ranks = 2,
             .strategy = strategy,
             .prefetch_units = strategy == "zero3" ? 2 : 0,
             .steps = 4,
             .activation_checkpointing = strategy == "zero3" ? "block" : "selective",
             .precision = precision,
             .offload_optimizer = "nvme",
             .offload_activations = "nvme",
             .more = beside_base()},
            name);
      expect_same_adapter(name, reference);
    }
  }
}

// Dropout makes the order of the steps part of the result, so a resumed run has to draw on.
TEST_F(LoraTest, ARunThatStopsGoesOnOnAnotherRankCount) {
  train({.ranks = 1, .more = beside_base()}, "reference");
  train({.ranks = 2, .strategy = "zero3", .more = beside_base()}, "stopped");
  forget_after_step("stopped", 8);
  train({.ranks = 4, .strategy = "zero1", .more = beside_base()}, "stopped", 1);
  expect_same_adapter("stopped", "reference");

  const std::string checkpoint = folder_.path("stopped/checkpoints/step-12");
  int64_t shard_bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
    if (entry.path().extension() == ".bin") {
      shard_bytes += static_cast<int64_t>(entry.file_size());
    }
  }
  EXPECT_EQ(shard_bytes, 12 * kLayers3 * 4 * kElemsPerRank) << "adapters and their moments alone";

  // Another directory's weights are not those that the adapters were trained beside.
  train({.ranks = 1, .steps = 3, .layers = kLayers3}, "other");
  json more = beside_base();
  more["model"]["path"] = folder_.path("other/model");
  GangOptions changed = options({.ranks = 1, .more = more}, "stopped");
  changed.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
  Gang gang(changed);
  EXPECT_EQ(gang.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidConfig)});
  EXPECT_THAT(gang.last_words(0)->message, HasSubstr("model.path holds other weights than then"));
}

TEST_F(LoraTest, TheBestAdapterIsExported) {
  json more = beside_base();
  more["evaluation"] = {{"everySteps", 2}, {"earlyStoppingPatience", 2}};
  const TinyJob job{
      .ranks = 1, .steps = 12, .lr = 0.5, .precision = "bf16", .more = more};  // it gets worse
  train(job, "one");
  TinyJob two = job;
  two.ranks = 2;
  two.strategy = "zero3";
  two.offload_optimizer = "nvme";
  train(two, "two");
  expect_same_adapter("two", "one");
}

TEST_F(LoraTest, TheExportIsPeftsAndATrainingGoesOnFromIt) {
  train({.ranks = 2, .strategy = "zero3", .steps = 4, .more = beside_base()}, "tuned");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path("tuned/model"))) {
    files.push_back(entry.path().filename());
  }
  EXPECT_THAT(files,
              testing::UnorderedElementsAre("adapter_config.json", "adapter_model.safetensors"));
  const json config = json::parse(read_text(folder_.path("tuned/model/adapter_config.json")));
  EXPECT_EQ(config.at("peft_type"), "LORA");
  EXPECT_EQ(config.at("base_model_name_or_path"), folder_.path("base/model"));
  const auto reader = runtime::SafetensorsReader::open(adapter_of("tuned"));
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->tensors().size(), 2U * 7 * kLayers3);
  EXPECT_TRUE(
      reader->tensors().contains("base_model.model.model.layers.2.mlp.down_proj.lora_B.weight"));

  const json from_tuned = beside_base({{"path", folder_.path("tuned/model")}});
  train({.ranks = 2, .steps = 1, .lr = 0, .more = from_tuned}, "still");
  EXPECT_TRUE(read_text(adapter_of("still")) == read_text(adapter_of("tuned")));
  EXPECT_EQ(last_validation("still"), last_validation("tuned"));
  json other = from_tuned;
  other["lora"]["rank"] = 8;
  expect_refusal(other, ExitCode::kInvalidData, "train.lora.path: train.lora.rank is 8, but");
  other = from_tuned;
  other["lora"]["targets"] = {"q_proj"};
  expect_refusal(other, ExitCode::kInvalidData, "train.lora.targets is \"self_attn.q_proj\"");
  other["lora"]["path"] = folder_.path("nowhere");
  expect_refusal(other, ExitCode::kInputNotFound, "nowhere/adapter_config.json");
  other = beside_base({{"targets", {"w_proj"}}});
  expect_refusal(other, ExitCode::kInvalidConfig, "\"w_proj\" is no module of the model");
}

TEST_F(LoraTest, AMergeIsTheModelWithItsAdapters) {
  const json merging = beside_base({{"merge", true}});
  train({.ranks = 1, .steps = 4, .more = beside_base()}, "tuned");
  train({.ranks = 1, .steps = 4, .more = merging}, "one");
  train({.ranks = 4, .strategy = "zero3", .steps = 4, .more = merging}, "four");
  expect_same("four", "one");
  EXPECT_FALSE(std::filesystem::exists(adapter_of("one")));
  EXPECT_EQ(last_validation("one"), last_validation("tuned"));
  // As a model of its own it says the same, but for the rounding of the sum.
  const json merged = {
      {"model", {{"path", folder_.path("one/model")}, {"config", nullptr}, {"init", nullptr}}},
      {"data", {{"validation", folder_.path("validation.txt")}}}};
  train({.ranks = 1, .steps = 1, .lr = 0, .more = merged}, "again");
  const double expected = last_validation_loss("tuned");
  EXPECT_NEAR(last_validation_loss("again"), expected, 1e-5 * expected);
  EXPECT_NE(read_text(weights_path("one")), read_text(weights_path("base")));
}

}  // namespace
}  // namespace lockstep::equivalence
