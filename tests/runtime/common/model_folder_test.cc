#include "runtime/common/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/config_json.h"
#include "runtime/common/model_family.h"
#include "runtime/common/model_json.h"
#include "runtime/common/train_config.h"
#include "runtime/common/train_fields.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using runtime::TempFolder;
using runtime::write_text;
using testing::HasSubstr;

json small_config(const std::string& model_type) {
  return {{"model_type", model_type}, {"vocab_size", 300},        {"hidden_size", 64},
          {"intermediate_size", 128}, {"num_hidden_layers", 3},   {"num_attention_heads", 4},
          {"num_key_value_heads", 4}, {"head_dim", 16},           {"max_position_embeddings", 64},
          {"bos_token_id", 3},        {"torch_dtype", "bfloat16"}};
}

// Fields beyond the small model's, so that what a family has is not at its default.
json telling_fields(const std::string& model_type) {
  const json rope = {{"rope_type", "yarn"},
                     {"factor", 4.0},
                     {"rope_theta", 5e4},
                     {"original_max_position_embeddings", 16}};
  const std::map<std::string, json> fields = {
      {"llama", {{"rope_scaling", rope}, {"mlp_bias", true}, {"tie_word_embeddings", true}}},
      {"mistral", {{"sliding_window", nullptr}}},
      {"qwen2", {{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 1}}},
      {"qwen3", {{"head_dim", 32}, {"attention_bias", true}}},
      {"mixtral", {{"num_local_experts", 5}, {"sliding_window", 9}}},
      {"qwen3_moe", {{"num_experts", 12}, {"norm_topk_prob", true}, {"use_sliding_window", true}}},
      {"granite", {{"attention_multiplier", 0.2}, {"logits_scaling", 1.7}}},
      {"phi3", {{"partial_rotary_factor", 0.5}, {"sliding_window", 10}}},
      {"gpt2", {{"attn_pdrop", 0.0}, {"embd_pdrop", 0.0}, {"resid_pdrop", 0.0}}},
      {"gemma2", {{"final_logit_softcapping", nullptr}, {"query_pre_attn_scalar", 20}}},
      {"gemma3_text",
       {{"rope_parameters",
         {{"full_attention", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e4}}},
          {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}}}}}};
  const auto found = fields.find(model_type);
  return found == fields.end() ? json::object() : found->second;
}

class ModelFolderTest : public testing::Test {
 protected:
  json train() const {
    const json given = {{"model", {{"path", folder_.path()}}},
                        {"data", {{"train", "corpus"}, {"sequenceLength", 32}}},
                        {"batch", {{"globalBatchSize", 8}}},
                        {"steps", 100}};
    return check_and_default(train_fields(), given, "").value;
  }
  void write_config(const json& config) const {
    write_text(folder_ / "config.json", config.dump());
  }
  Error error() const {
    const auto complete = complete_train(train(), 1);
    return complete ? Error{} : complete.error();
  }
  TempFolder folder_;
};

TEST_F(ModelFolderTest, AJobTakesTheModelOfEveryFamilyAsItIs) {
  for (const ModelFamily& family : model_families()) {
    json config = small_config(std::string(family.model_type));
    config.update(telling_fields(std::string(family.model_type)));
    write_config(config);
    const Result<ModelConfig> read = read_config_json(folder_ / "config.json");
    ASSERT_TRUE(read) << family.model_type << ": " << read.error().message;
    const auto complete = complete_train(train(), 1);
    ASSERT_TRUE(complete) << family.model_type << ": " << complete.error().message;
    EXPECT_TRUE(check_train(as_inline_model(*complete), 1, "train").empty()) << family.model_type;
    const TrainConfig decoded = decode_train(*complete);
    EXPECT_EQ(encode_model_json(decoded.model, DType::kFp32),
              encode_model_json(*read, DType::kFp32));
    EXPECT_EQ(decoded.model_source.path, folder_.path());
    EXPECT_TRUE(decoded.model_source.is_pretrained);
  }
}

TEST_F(ModelFolderTest, EpochsAndInitKeepTheModel) {
  write_config(small_config("llama"));
  json given = train();
  given["model"]["init"] = "random";
  given.erase("steps");
  given["epochs"] = 2;
  const auto complete = complete_train(given, 1);
  ASSERT_TRUE(complete);
  const auto counted = with_steps(complete->dump(), 50);
  ASSERT_TRUE(counted) << counted.error().message;
  EXPECT_EQ(counted->model.vocab_size, 300);
  EXPECT_EQ(counted->model_source.path, folder_.path());
  EXPECT_FALSE(counted->model_source.is_pretrained);
}

TEST_F(ModelFolderTest, WhatMakesNoModelIsRefusedByFileAndKey) {
  EXPECT_EQ(error().code, ErrorCode::kNotFound);
  EXPECT_THAT(error().message, HasSubstr(folder_ / "config.json"));
  struct Case {
    json config;
    std::string said;
  };
  const auto with = [](const std::string& key, const json& value) {
    json config = small_config("llama");
    config[key] = value;
    return config;
  };
  for (const Case& one : std::vector<Case>{
           {json::array(), "config.json: not a JSON object"},
           {with("model_type", "mamba"), "config.json: model_type: found \"mamba\", supported are"},
           {with("hidden_size", 1 << 20), "config.json: hidden_size"},
           {with("num_hidden_layers", 2000), "config.json: num_hidden_layers"},
           {with("num_hidden_layers", 4000000000000000000),
            "num_hidden_layers: must be an integer"},
           {with("num_hidden_layers", 18446744073709551615ULL), "num_hidden_layers: must be an"},
           {with("quantization_config", {{"bits", 4}}), "quantization_config"},
           {with("max_position_embeddings", 16), "sequenceLength: must be at most"},
           {with("vocab_size", 100), "at least 256 for the bytes tokenizer"}}) {
    write_config(one.config);
    EXPECT_EQ(error().code, ErrorCode::kInvalidArgument) << one.said;
    EXPECT_THAT(error().message, HasSubstr(one.said));
    EXPECT_THAT(error().message, HasSubstr(folder_.path()));
  }
}

TEST_F(ModelFolderTest, ATokenizerIsFoundByItsFiles) {
  write_text(folder_ / "tokenizer_config.json", "{}");
  EXPECT_FALSE(find_tokenizer(folder_.path()));
  write_text(folder_ / "tokenizer.model", "");
  EXPECT_EQ(find_tokenizer(folder_.path()), folder_ / "tokenizer.model");
}

TEST_F(ModelFolderTest, SpecialIdsAreCarriedOver) {
  write_config(small_config("llama"));
  const auto ids = read_special_ids(folder_ / "config.json");
  ASSERT_TRUE(ids);
  EXPECT_EQ(*ids, json({{"bos_token_id", 3}}));
  const ModelConfig model = read_config_json(folder_ / "config.json").value();
  const json written = json::parse(encode_config_json(model, DType::kFp32, *ids));
  EXPECT_EQ(written.at("bos_token_id"), 3);
  EXPECT_TRUE(written.at("eos_token_id").is_null());
}

TEST(ModelSourceTest, APathOrAConfigAndWeightsOnlyFromAPath) {
  const auto problems = [](const json& model) {
    const json train = {{"model", model},
                        {"data", {{"train", "corpus"}, {"sequenceLength", 32}}},
                        {"batch", {{"globalBatchSize", 8}}},
                        {"steps", 100}};
    std::string text;
    for (const Problem& problem : check_train(train, 1, "t")) {
      text += problem.path + " " + problem.message + "\n";
    }
    return text;
  };
  const json config = {{"vocab_size", 256},
                       {"hidden_size", 64},
                       {"intermediate_size", 128},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4}};
  EXPECT_EQ(problems({{"path", "/m"}}), "");
  EXPECT_EQ(problems({{"path", "/m"}, {"init", "random"}, {"frozen", {"layer.3"}}}), "");
  EXPECT_EQ(problems({{"path", "/m"}, {"config", config}}),
            "t.model.path and config exclude each other\n");
  EXPECT_EQ(problems(json::object()), "t.model.config is required\n");
  EXPECT_EQ(problems({{"config", config}, {"init", "pretrained"}}),
            "t.model.init pretrained needs model.path\n");
  EXPECT_EQ(problems({{"path", "hf://org/name@v1"}}), "");
  EXPECT_THAT(problems({{"path", "hf://name"}}), HasSubstr("hf://name is no reference to the hub"));
}

}  // namespace
}  // namespace lockstep::common
