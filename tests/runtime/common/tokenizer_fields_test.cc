#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/model_folder.h"
#include "runtime/common/train_config.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json with_tokenizer(const json& tokenizer) {
  json train = json::parse(R"({
    "task": "pretrain",
    "model": {"init": "random",
              "config": {"model_type": "llama", "vocab_size": 100, "hidden_size": 64,
                         "intermediate_size": 128, "num_hidden_layers": 2,
                         "num_attention_heads": 4, "max_position_embeddings": 64}},
    "data": {"train": "corpus.txt", "sequenceLength": 64},
    "batch": {"globalBatchSize": 8},
    "steps": 10})");
  train["tokenizer"] = tokenizer;
  return train;
}

TEST(TokenizerFieldsTest, ATokenizerHasAPathAndAVocabularyOfItsOwn) {
  const json train = with_tokenizer({{"type", "hf"}, {"path", "/t/tokenizer.json"}});
  ASSERT_TRUE(check_train(train, 1, "t").empty());
  EXPECT_EQ(decode_train(train).tokenizer.type, TokenizerConfig::Type::kHuggingFace);
  EXPECT_EQ(decode_train(train).tokenizer.path, "/t/tokenizer.json");
  EXPECT_EQ(decode_train(with_tokenizer(json::object())).tokenizer.type,
            TokenizerConfig::Type::kBytes);
}

TEST(TokenizerFieldsTest, AModelsFolderIsItsTokenizers) {
  json train = with_tokenizer({{"type", "hf"}});
  train["model"]["path"] = "/m";  // beside its config, which was read
  EXPECT_EQ(decode_train(train).tokenizer.path, "/m");
  EXPECT_EQ(as_inline_model(train).at("tokenizer").at("path"), "/m");
  train["tokenizer"]["path"] = "/t";
  EXPECT_EQ(decode_train(train).tokenizer.path, "/t");
  EXPECT_EQ(as_inline_model(train).at("tokenizer").at("path"), "/t");
}

TEST(TokenizerFieldsTest, WhatDoesNotFitIsRefusedByName) {
  const std::vector<std::pair<json, const char*>> table = {
      {{{"type", "hf"}}, "hf needs tokenizer.path or model.path"},
      {{{"type", "hf"}, {"path", "hf://datasets/o/n"}}, "names datasets/..."},
      {{{"type", "hf"}, {"path", ""}}, "must not be empty"},
  };
  for (const auto& [tokenizer, said] : table) {
    const Problems problems = check_train(with_tokenizer(tokenizer), 1, "t");
    ASSERT_EQ(problems.size(), 1U) << tokenizer;
    EXPECT_THAT(problems[0].message, HasSubstr(said));
  }
  json bytes = with_tokenizer({{"type", "bytes"}, {"path", "/t"}});
  bytes["model"]["config"]["vocab_size"] = 256;
  const Problems problems = check_train(bytes, 1, "t");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0].message, HasSubstr("needs type hf, found \"bytes\""));
}

}  // namespace
}  // namespace lockstep::common
