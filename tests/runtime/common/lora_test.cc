#include "runtime/common/lora.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/common/choose_strategy.h"
#include "runtime/common/estimate_memory.h"
#include "runtime/common/model_json.h"
#include "runtime/common/peft_config.h"
#include "runtime/common/train_config.h"
#include "tests/runtime/common/minimal_train.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

ModelConfig model_of(const std::string& type, const json& more = json::object()) {
  json fields = {{"model_type", type},       {"vocab_size", 61},
                 {"hidden_size", 48},        {"intermediate_size", 40},
                 {"num_hidden_layers", 2},   {"num_attention_heads", 4},
                 {"num_key_value_heads", 4}, {"max_position_embeddings", 64}};
  fields.update(more);
  return decode_model_json(fields).value();
}

LoraConfig all_of_rank(int64_t rank) {
  return {.rank = rank, .targets = {"all-linear"}};
}

TEST(LoraTest, EveryFamilyHasTheModulesOfTransformers) {
  EXPECT_THAT(module_names(model_of("llama")), ElementsAre("q_proj", "k_proj", "v_proj", "o_proj",
                                                           "gate_proj", "up_proj", "down_proj"));
  EXPECT_THAT(module_names(model_of("phi3")),
              ElementsAre("qkv_proj", "o_proj", "gate_up_proj", "down_proj"));
  EXPECT_THAT(module_names(model_of("gpt2")), ElementsAre("c_attn", "c_proj", "c_fc"));
  EXPECT_THAT(module_names(model_of("mixtral", {{"num_local_experts", 3}})),
              ElementsAre("q_proj", "k_proj", "v_proj", "o_proj"));
}

TEST(LoraTest, TargetsAreTheLastWordsOfAPlace) {
  const auto places = [](const std::string& type, const std::vector<std::string>& targets) {
    std::vector<std::string> found;
    for (const LinearModule& module :
         adapted_modules(model_of(type), {.rank = 1, .targets = targets}, 1)) {
      found.push_back(module.path);
    }
    return found;
  };
  EXPECT_THAT(places("gpt2", {"c_proj"}),
              ElementsAre("transformer.h.1.attn.c_proj", "transformer.h.1.mlp.c_proj"));
  EXPECT_THAT(places("gpt2", {"mlp.c_proj"}), ElementsAre("transformer.h.1.mlp.c_proj"));
  EXPECT_THAT(places("llama", {"self_attn.v_proj", "q_proj"}),
              ElementsAre("model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"));
  EXPECT_TRUE(places("llama", {"proj"}).empty());
}

TEST(LoraTest, TensorsHavePeftsNamesAndShapes) {
  const ModelConfig gpt2 = model_of("gpt2");
  const std::vector<ModelTensor> tensors = adapter_tensors(gpt2, all_of_rank(3), 0);
  ASSERT_EQ(tensors.size(), 8U);
  EXPECT_EQ(tensors[0].name, "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight");
  EXPECT_THAT(tensors[0].shape, ElementsAre(3, 48));
  EXPECT_DOUBLE_EQ(tensors[0].first_scale, 1 / std::sqrt(48.0));
  EXPECT_EQ(tensors[1].name, "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight");
  EXPECT_THAT(tensors[1].shape, ElementsAre(3 * 48, 3));
  EXPECT_EQ(tensors[1].first, FirstValues::kZeros);
  const std::vector<LinearModule> modules = linear_modules(model_of("llama"), 0);
  EXPECT_EQ(modules[2].place, "self_attn.v_proj");
  EXPECT_EQ(modules[2].out_begin, 96);  // behind queries and keys
}

TEST(LoraTest, ScaleIsAlphaByRankOrByItsRoot) {
  EXPECT_DOUBLE_EQ((LoraConfig{.rank = 16, .alpha = 32}.scale()), 2);
  EXPECT_DOUBLE_EQ((LoraConfig{.rank = 16, .alpha = 32, .use_rslora = true}.scale()), 8);
}

// minimal() with the directory of a model in place of its config.
json with_lora(const json& lora) {
  json train = minimal();
  train["model"] = {{"path", "/models/base"}};
  train["lora"] = lora;
  return train;
}

TEST(LoraTest, FieldsHaveDefaultsAndFreezeTheModel) {
  json train = with_lora(json::object());
  ASSERT_TRUE(check_train(train, 1, "t").empty());
  train["model"]["config"] = minimal()["model"]["config"];
  const TrainConfig config = decode_train(train);
  EXPECT_EQ(config.lora.rank, 16);
  EXPECT_EQ(config.lora.alpha, 32);
  EXPECT_EQ(config.lora.dropout, 0.05);
  EXPECT_FALSE(config.lora.use_rslora);
  EXPECT_FALSE(config.lora.merge);
  EXPECT_THAT(config.lora.targets, ElementsAre("all-linear"));
  for (int64_t unit = 0; unit < 4; ++unit) EXPECT_TRUE(is_frozen(config, unit));
  EXPECT_FALSE(is_frozen(config, 4));  // the first unit of adapters
  EXPECT_EQ(first_trained_block(config), 1);
  EXPECT_FALSE(decode_train(minimal()).lora.is_on());
}

TEST(LoraTest, EveryMistakeNamesItsField) {
  struct Case {
    json train;
    std::string path, message;
  };
  json inline_model = minimal();
  inline_model["lora"] = json::object();
  json random = with_lora(json::object());
  random["model"]["init"] = "random";
  json frozen = with_lora(json::object());
  frozen["model"]["frozen"] = {"embedding"};
  const std::vector<Case> table = {
      {with_lora({{"rank", 0}}), "t.lora.rank", "must be at least 1"},
      {with_lora({{"alpha", 0}}), "t.lora.alpha", "must be greater than 0"},
      {with_lora({{"dropout", 1}}), "t.lora.dropout", "must be less than 1"},
      {with_lora({{"targets", "all-linear"}}), "t.lora.targets", "must be a list"},
      {with_lora({{"targets", json::array()}}), "t.lora.targets", "1"},
      {with_lora({{"targets", {"q proj"}}}), "t.lora.targets[0]", "all-linear or the name"},
      {with_lora({{"targets", {"q_proj", "all-linear"}}}), "t.lora.targets", "already names every"},
      {with_lora({{"path", "hf://a/b"}}), "t.lora.path", "hf:// is not supported yet"},
      {with_lora({{"r", 8}}), "t.lora.r", "unknown field"},
      {inline_model, "t.lora", "needs model.path"},
      {random, "t.lora", "needs model.init pretrained"},
      {frozen, "t.model.frozen", "and lora exclude each other"},
  };
  for (const Case& c : table) {
    const Problems problems = check_train(c.train, 1, "t");
    ASSERT_EQ(problems.size(), 1U) << c.path << c.message;
    EXPECT_EQ(problems[0].path, c.path);
    EXPECT_THAT(problems[0].message, HasSubstr(c.message));
  }
}

// The two need the model's config.json and an adapter beside it.
class LoraFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    write("config.json", R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4})");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  json train_with(const json& lora) const {
    json train = with_lora(lora);
    train["model"]["path"] = folder_;
    return check_and_default_train(train);
  }
  static json check_and_default_train(json train) {
    EXPECT_TRUE(check_train(train, 1, "train").empty());
    train["tokenizer"] = {{"type", "bytes"}};
    return train;
  }

  const std::string folder_ =
      std::string(testing::TempDir()) + "/lora_test." + std::to_string(::getpid());
};

TEST_F(LoraFilesTest, AnUnknownTargetIsRefusedWithTheNamesOfTheFamily) {
  json train = train_with({{"targets", {"q_proj", "w_proj"}}});
  const auto refused = complete_train(train, 1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("train.lora.targets[1]"));
  EXPECT_THAT(refused.error().message, HasSubstr("\"w_proj\" is no module of the model"));
  EXPECT_THAT(refused.error().message,
              HasSubstr("modules of llama: q_proj, k_proj, v_proj, o_proj, gate_proj"));
  train["lora"]["targets"] = {"q_proj", "mlp.down_proj"};
  EXPECT_TRUE(complete_train(train, 1));
}

TEST_F(LoraFilesTest, ThePeftConfigIsReadBackAsItWasWritten) {
  const ModelConfig model = model_of("llama");
  const LoraConfig lora = {.rank = 6, .alpha = 9.5, .use_rslora = true, .targets = {"q_proj"}};
  write("adapter_config.json", encode_adapter_config(model, lora, "/models/base"));
  const auto read = read_adapter_config(folder_);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->lora.rank, 6);
  EXPECT_EQ(read->lora.alpha, 9.5);
  EXPECT_TRUE(read->lora.use_rslora);
  EXPECT_THAT(read->lora.targets, ElementsAre("q_proj"));
  EXPECT_EQ(read->base_model, "/models/base");
  EXPECT_TRUE(check_same_adapter(model, lora, folder_));
  LoraConfig other = lora;
  other.rank = 8;
  EXPECT_THAT(check_same_adapter(model, other, folder_).error().message,
              HasSubstr("train.lora.rank is 8, but the adapter in"));
  other = lora;
  other.targets = {"all-linear"};
  EXPECT_THAT(check_same_adapter(model, other, folder_).error().message,
              HasSubstr("train.lora.targets is"));
  // PEFT knows no word of ours.
  const json all = json::parse(encode_adapter_config(model_of("gpt2"), all_of_rank(2), "x"));
  EXPECT_EQ(all.at("target_modules"), json({"c_attn", "c_proj", "c_fc"}));
  EXPECT_EQ(all.at("fan_in_fan_out"), true);
}

TEST_F(LoraFilesTest, TargetsThatPeftSpellsOutAreThePlacesInALayer) {
  json config = json::parse(encode_adapter_config(model_of("gpt2"), all_of_rank(2), "x"));
  config["target_modules"] = {"transformer.h.1.attn.c_proj", "transformer.h.0.attn.c_proj",
                              "transformer.h.10.mlp.c_fc", "c_attn"};
  EXPECT_THAT(decode_adapter_config(config.dump())->lora.targets,
              ElementsAre("attn.c_proj", "c_attn", "mlp.c_fc"));
}

TEST_F(LoraFilesTest, WhatPeftHasAndWeHaveNotIsRefusedByItsKey) {
  const json sound = json::parse(encode_adapter_config(model_of("llama"), all_of_rank(2), "x"));
  const std::vector<std::pair<std::string, json>> table = {{"peft_type", "IA3"},
                                                           {"bias", "all"},
                                                           {"use_dora", true},
                                                           {"rank_pattern", {{"q_proj", 3}}},
                                                           {"modules_to_save", {"head"}},
                                                           {"target_modules", "model.*q_proj"},
                                                           {"layers_to_transform", {0}},
                                                           {"init_lora_weights", "pissa_niter_4"},
                                                           {"init_lora_weights", "loftq"},
                                                           {"r", 0}};
  for (const auto& [key, value] : table) {
    json config = sound;
    config[key] = value;
    const auto read = decode_adapter_config(config.dump());
    ASSERT_FALSE(read) << key;
    EXPECT_THAT(read.error().message, HasSubstr(key));
  }
  EXPECT_FALSE(decode_adapter_config("[]"));
  EXPECT_EQ(read_adapter_config(folder_).error().code, ErrorCode::kNotFound);
}

// Llama 3.2 1B but for its tied embeddings, as in estimate_memory_test.
TEST(LoraTest, TheEstimateHasNoStateForTheModelsOwnWeights) {
  TrainConfig train = {.model = {.model_type = "llama",
                                 .vocab_size = 128256,
                                 .hidden_size = 2048,
                                 .intermediate_size = 8192,
                                 .num_hidden_layers = 16,
                                 .num_attention_heads = 32,
                                 .num_key_value_heads = 8,
                                 .head_dim = 64,
                                 .max_position_embeddings = 2048},
                       .frozen = std::vector<bool>(18, true),
                       .lora = all_of_rank(16),
                       .data = {.sequence_length = 2048},
                       .batch = {.global_batch_size = 64, .micro_batch_size = 1}};
  const auto adapters = static_cast<double>(num_trained_parameters(train));
  // As published for all linear layers: 11.3 million of rank 16.
  EXPECT_EQ(num_trained_parameters(train), 11272192);
  const auto own = static_cast<double>(num_parameters(train.model));
  for (const auto& [precision, bytes] :
       std::vector<std::pair<DType, double>>{{DType::kFp32, 4}, {DType::kBf16, 2}}) {
    train.precision = precision;
    const MemoryEstimate ddp = estimate_memory(train, Strategy::kDdp, 4);
    const double copies = precision == DType::kFp32 ? 0 : bytes;
    EXPECT_NEAR(static_cast<double>(ddp.weights), bytes * own + (4 + copies) * adapters, 1e6);
    EXPECT_NEAR(static_cast<double>(ddp.gradients), 4 * adapters, 1e6);
    EXPECT_NEAR(static_cast<double>(ddp.optimizer), 8 * adapters, 1e6);
    const MemoryEstimate zero3 = estimate_memory(train, Strategy::kZero3, 4);
    EXPECT_NEAR(static_cast<double>(zero3.weights), static_cast<double>(ddp.weights) / 4, 1e6);
    // Two units of the model, two of adapters.
    EXPECT_NEAR(static_cast<double>(zero3.gathered),
                2 * bytes * (128256.0 * 2048 + 2048) + 2 * bytes * adapters / 16, 1e6);
    EXPECT_LT(static_cast<double>(zero3.snapshot), 12 * adapters / 4 + 1e6);
  }
  EXPECT_LT(strategy_traffic_bytes(Strategy::kDdp, train, 4), static_cast<int64_t>(12 * adapters));
}

}  // namespace
}  // namespace lockstep::common
