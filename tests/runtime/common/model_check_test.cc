#include "runtime/common/model_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lockstep::common
