#include "runtime/common/model_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/model_json.h"
#include "runtime/common/train_config.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json train_of(const json& fields) {
  json config = json::parse(R"({"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                                "num_hidden_layers": 2, "num_attention_heads": 4})");
  config.update(fields);
  return {{"model", {{"init", "random"}, {"config", config}}},
          {"tokenizer", {{"type", "bytes"}}},
          {"data", {{"train", "corpus"}, {"sequenceLength", 32}}},
          {"batch", {{"globalBatchSize", 8}}},
          {"steps", 100}};
}

TEST(ModelCheckTest, AFamilyHasItsOwnDefaults) {
  const json train = train_of({{"model_type", "gemma2"}});
  ASSERT_TRUE(check_train(train, 1, "train").empty());
  const ModelConfig model = decode_train(train).model;
  EXPECT_TRUE(model.tie_word_embeddings);
  EXPECT_EQ(model.logit_softcap, 30.0);
  EXPECT_EQ(model.window_of(0), 4096);
  EXPECT_EQ(model.window_of(1), 0);
}

TEST(ModelCheckTest, AKeyOfAnotherFamilyIsRefusedByItsPath) {
  const Problems problems =
      check_train(train_of({{"model_type", "gemma2"}, {"logits_scaling", 2.0}}), 1, "train");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "train.model.config.logits_scaling");
  EXPECT_THAT(problems[0].message, HasSubstr("gemma2"));
}

TEST(ModelCheckTest, WhatTheTableOfFieldsRefusesIsNotRefusedTwice) {
  EXPECT_FALSE(find_model_problem(train_of({{"model_type", "gemma2"}, {"hidden_size", -1}})));
  EXPECT_FALSE(find_model_problem(json::object()));
  EXPECT_FALSE(find_model_problem(json::array()));
}

// A checkpoint is compared by it: that a default was written down makes no other model.
TEST(ModelCheckTest, AFamilysDefaultsAreWrittenIntoTheResolvedConfig) {
  const auto resolved = [](const json& fields) {
    return resolve_train(train_of(fields), 1).train.at("model").at("config");
  };
  EXPECT_EQ(resolved({{"model_type", "gemma2"}, {"tie_word_embeddings", true}}),
            resolved({{"model_type", "gemma2"}}));
  EXPECT_EQ(resolved({{"model_type", "llama"}}).at("rope_theta"), 10000.0);
  EXPECT_FALSE(resolved({{"model_type", "gpt2"}}).contains("rope_theta"));
  const json rope = {{"rope_type", "default"}, {"rope_theta", 5.0}};
  EXPECT_FALSE(
      resolved({{"model_type", "llama"}, {"rope_parameters", rope}}).contains("rope_theta"));
}

// Of a job and of a config.json: `fields` make the same model.
void expect_model_of_config_json(const json& fields) {
  const json train = train_of(fields);
  ASSERT_TRUE(check_train(train, 1, "train").empty()) << fields;
  json config = train.at("model").at("config");
  config["initializer_range"] = config.value("initializer_range", 0.02);
  const Result<ModelConfig> read = decode_model_json(config);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(encode_model_json(decode_train(train).model, DType::kFp32),
            encode_model_json(*read, DType::kFp32));
}

TEST(ModelCheckTest, AJobsConfigMeansWhatAConfigJsonMeans) {
  const std::vector<json> cases = {
      {{"model_type", "gemma2"}},
      {{"model_type", "gemma2"}, {"attn_logit_softcapping", nullptr}},
      {{"model_type", "gemma2"}, {"final_logit_softcapping", nullptr}},
      {{"model_type", "mistral"}, {"num_key_value_heads", 2}, {"sliding_window", nullptr}},
      {{"model_type", "mistral"}, {"num_attention_heads", 8}},
      {{"model_type", "qwen3"}, {"num_key_value_heads", 2}},
      {{"model_type", "mixtral"}, {"num_key_value_heads", 2}},
      {{"model_type", "qwen3_moe"}, {"norm_topk_prob", true}, {"num_local_experts", 16}},
      {{"model_type", "gemma3_text"}},
      {{"model_type", "gpt2"}},
      {{"model_type", "llama"}},
      {{"model_type", "granite"}, {"initializer_range", 0}},
  };
  for (const json& fields : cases) expect_model_of_config_json(fields);
}

TEST(ModelCheckTest, NullSwitchesOffWhatAFamilyHas) {
  const ModelConfig gemma = decode_train(train_of({{"model_type", "gemma2"},
                                                   {"attn_logit_softcapping", nullptr},
                                                   {"final_logit_softcapping", nullptr}}))
                                .model;
  EXPECT_EQ(gemma.attention_softcap, 0);
  EXPECT_EQ(gemma.logit_softcap, 0);
  const ModelConfig mistral = decode_train(train_of({{"model_type", "mistral"},
                                                     {"num_key_value_heads", 2},
                                                     {"sliding_window", nullptr}}))
                                  .model;
  EXPECT_EQ(mistral.window_of(0), 0);
}

TEST(ModelCheckTest, ANullThatChangesNothingMakesNoOtherText) {
  const auto resolved = [](const json& fields) {
    return resolve_train(train_of(fields), 1).train.at("model").at("config");
  };
  EXPECT_EQ(resolved({{"model_type", "phi3"}, {"sliding_window", nullptr}}),
            resolved({{"model_type", "phi3"}}));
  EXPECT_EQ(resolved({{"model_type", "llama"}, {"sliding_window", nullptr}}),
            resolved({{"model_type", "llama"}}));
}

TEST(ModelCheckTest, SequencesAreAsLongAsTheFamilyAllows) {
  const auto problems_of = [](const char* model_type, int64_t length) {
    json train = train_of({{"model_type", model_type}});
    train["data"]["sequenceLength"] = length;
    return check_train(train, 1, "train");
  };
  EXPECT_TRUE(problems_of("gpt2", 1024).empty());
  const Problems problems = problems_of("gpt2", 1025);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "train.data.sequenceLength");
  EXPECT_THAT(problems[0].message, HasSubstr("1024"));
  EXPECT_TRUE(problems_of("llama", 2048).empty());
  EXPECT_EQ(problems_of("llama", 2049).size(), 1U);
  EXPECT_TRUE(problems_of("gemma2", 8192).empty());
  EXPECT_EQ(decode_train(train_of({{"model_type", "gpt2"}})).model.max_position_embeddings, 1024);
}

TEST(ModelCheckTest, AFamilysKeyHeadsThatDoNotFitAreAskedFor) {
  const Problems problems = check_train(train_of({{"model_type", "mistral"}}), 1, "train");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "train.model.config.num_key_value_heads");
  EXPECT_THAT(problems[0].message, HasSubstr("found 8"));
  EXPECT_THAT(problems[0].hint, HasSubstr("give it"));
}

TEST(ModelCheckTest, ATokenTakesAtMostTheExpertsThatThereAre) {
  const auto problems_of = [](json fields) {
    fields["num_key_value_heads"] = 2;
    return check_train(train_of(fields), 1, "train");
  };
  EXPECT_TRUE(problems_of({{"model_type", "mixtral"}, {"num_experts_per_tok", 8}}).empty());
  for (const json& fields : std::vector<json>{
           {{"model_type", "mixtral"}, {"num_experts_per_tok", 9}},
           {{"model_type", "mixtral"}, {"num_local_experts", 1}},
           {{"model_type", "qwen3_moe"}, {"num_local_experts", 4}, {"num_experts_per_tok", 5}}}) {
    const Problems problems = problems_of(fields);
    ASSERT_EQ(problems.size(), 1U) << fields;
    EXPECT_EQ(problems[0].path, "train.model.config.num_experts_per_tok");
    EXPECT_THAT(problems[0].message, HasSubstr("at most num_local_experts"));
  }
}

TEST(ModelCheckTest, HeadsThatTransformersRefusesAreRefused) {
  for (const char* const family : {"llama", "gemma2", "gemma3_text"}) {
    const json fields = {{"model_type", family}, {"hidden_size", 66}, {"head_dim", 16}};
    const Problems problems = check_train(train_of(fields), 1, "train");
    ASSERT_EQ(problems.size(), 1U) << family;
    EXPECT_EQ(problems[0].path, "train.model.config.hidden_size");
    EXPECT_THAT(problems[0].message, HasSubstr(family));
  }
  const json fields = {{"model_type", "qwen3"}, {"num_key_value_heads", 2}, {"hidden_size", 66}};
  EXPECT_TRUE(check_train(train_of(fields), 1, "train").empty());
}

}  // namespace
}  // namespace lockstep::common
