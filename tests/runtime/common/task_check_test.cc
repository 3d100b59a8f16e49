#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/train_config.h"
#include "runtime/common/train_fields.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using Loss = DataConfig::Loss;

json sft() {
  return json::parse(R"({
    "task": "sft",
    "model": {"init": "random",
              "config": {"model_type": "llama", "vocab_size": 300, "hidden_size": 64,
                         "intermediate_size": 128, "num_hidden_layers": 2,
                         "num_attention_heads": 4, "max_position_embeddings": 64}},
    "tokenizer": {"type": "hf", "path": "/t"},
    "data": {"train": "chats.jsonl", "sequenceLength": 64},
    "batch": {"globalBatchSize": 8},
    "steps": 10})");
}

json pretrain() {
  json train = sft();
  train["task"] = "pretrain";
  return train;
}

TEST(TaskCheckTest, FineTuningLearnsResponsesOfWholeConversations) {
  ASSERT_THAT(check_train(sft(), 1, "t"), IsEmpty());
  const TrainConfig config = decode_train(sft());
  EXPECT_EQ(config.task, Task::kSft);
  EXPECT_EQ(config.data.loss, Loss::kResponse);
  EXPECT_FALSE(config.data.packing);
  const ResolvedTrain resolved =
      resolve_train(check_and_default(train_fields(), sft(), "").value, 1);
  EXPECT_THAT(resolved.notes, testing::IsSupersetOf({"data.loss = response (task sft)",
                                                     "data.packing = false (task sft)"}));
  EXPECT_EQ(resolved.train.at("data").at("loss"), "response");
}

TEST(TaskCheckTest, PretrainingLearnsAllOfAStream) {
  ASSERT_THAT(check_train(pretrain(), 1, "t"), IsEmpty());
  const TrainConfig config = decode_train(pretrain());
  EXPECT_EQ(config.task, Task::kPretrain);
  EXPECT_EQ(config.data.loss, Loss::kAll);
  EXPECT_TRUE(config.data.packing);
}

TEST(TaskCheckTest, WhatIsGivenHolds) {
  json train = sft();
  train["data"]["loss"] = "all";
  train["data"]["packing"] = true;
  train["data"]["format"] = "messages";
  train["data"]["columns"] = {{"instruction", "q"}, {"response", "a"}};
  ASSERT_THAT(check_train(train, 1, "t"), IsEmpty());
  const DataConfig data = decode_train(train).data;
  EXPECT_EQ(data.loss, Loss::kAll);
  EXPECT_TRUE(data.packing);
  EXPECT_EQ(data.format, DataConfig::Format::kMessages);
  EXPECT_EQ(data.conversation_columns.instruction, "q");
  EXPECT_EQ(data.conversation_columns.response, "a");
  EXPECT_EQ(data.conversation_columns.messages, "");
  EXPECT_EQ(data.text_column, "text");
}

TEST(TaskCheckTest, WhatNeedsTheOtherTaskIsRefusedByName) {
  const std::vector<std::pair<json, const char*>> table = {
      {{{"loss", "response"}}, "t.data.loss"},
      {{{"format", "messages"}}, "t.data.format"},
      {{{"columns", {{"messages", "m"}}}}, "t.data.columns.messages"},
      {{{"columns", {{"input", "m"}}}}, "t.data.columns.input"},
  };
  for (const auto& [data, field] : table) {
    json train = pretrain();
    train["data"].merge_patch(data);
    const Problems problems = check_train(train, 1, "t");
    ASSERT_EQ(problems.size(), 1U) << field;
    EXPECT_EQ(problems[0].path, field);
    EXPECT_THAT(problems[0].message, HasSubstr("needs task sft"));
  }
}

TEST(TaskCheckTest, ColumnsOfTwoLayoutsExcludeEachOther) {
  json train = sft();
  train["data"]["columns"] = {{"messages", "m"}, {"prompt", "p"}};
  const Problems problems = check_train(train, 1, "t");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "t.data.columns.prompt");
  EXPECT_THAT(problems[0].message, HasSubstr("columns.messages exclude each other"));
}

TEST(TaskCheckTest, FineTuningNeedsATokenizerUnlessItsDataAreTokens) {
  json train = sft();
  train["tokenizer"] = {{"type", "bytes"}};
  const Problems problems = check_train(train, 1, "t");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "t.tokenizer.type");
  EXPECT_THAT(problems[0].message, HasSubstr("task sft needs type hf, found \"bytes\""));
  train["data"]["format"] = "tokens";
  EXPECT_THAT(check_train(train, 1, "t"), IsEmpty());
}

json dpo() {
  json train = sft();
  train["task"] = "dpo";
  return train;
}

TEST(TaskCheckTest, PairsAreSamplesOfTheirOwn) {
  json train = dpo();
  ASSERT_THAT(check_train(train, 1, "t"), IsEmpty());
  const TrainConfig usual = decode_train(train);
  EXPECT_EQ(usual.task, Task::kDpo);
  EXPECT_FALSE(usual.data.packing);
  EXPECT_EQ(usual.preference.beta, 0.1);
  EXPECT_EQ(micro_batch_rows(usual), 2 * usual.batch.micro_batch_size);
  EXPECT_EQ(micro_batch_rows(decode_train(sft())), usual.batch.micro_batch_size);
  train["preference"] = {{"beta", 0.5}, {"lossType", "ipo"}};
  train["data"]["columns"] = {{"prompt", "q"}, {"chosen", "good"}, {"rejected", "bad"}};
  ASSERT_THAT(check_train(train, 1, "t"), IsEmpty());
  const TrainConfig config = decode_train(train);
  EXPECT_EQ(config.preference.beta, 0.5);
  EXPECT_EQ(config.preference.loss, PreferenceConfig::Loss::kIpo);
  EXPECT_EQ(config.data.conversation_columns.chosen, "good");
  train["task"] = "orpo";
  train["preference"].erase("lossType");
  ASSERT_THAT(check_train(train, 1, "t"), IsEmpty());
  EXPECT_EQ(decode_train(train).task, Task::kOrpo);
}

TEST(TaskCheckTest, ARewardModelHasAScoreInPlaceOfAHead) {
  json train = dpo();
  train["task"] = "reward";
  train["model"]["config"]["tie_word_embeddings"] = true;
  train["preference"] = {{"centerCoefficient", 0.01}};
  ASSERT_THAT(check_train(train, 1, "t"), IsEmpty());
  const TrainConfig config = decode_train(train);
  EXPECT_EQ(config.task, Task::kReward);
  EXPECT_EQ(config.preference.center_coefficient, 0.01);
  EXPECT_FALSE(config.data.packing);
  EXPECT_EQ(micro_batch_rows(config), 2 * config.batch.micro_batch_size);
  EXPECT_TRUE(config.model.has_score);
  EXPECT_FALSE(config.model.tie_word_embeddings) << "there is no head to tie";
  train["task"] = "dpo";
  train.erase("preference");
  EXPECT_FALSE(decode_train(train).model.has_score);
}

TEST(TaskCheckTest, DistillationIsFineTuningBesideATeacher) {
  json train = sft();
  train["task"] = "distill";
  train["distill"] = {{"teacher", "/models/big"}};
  ASSERT_THAT(check_train(train, 1, "t"), IsEmpty());
  const TrainConfig usual = decode_train(train);
  EXPECT_EQ(usual.task, Task::kDistill);
  EXPECT_EQ(usual.data.loss, Loss::kResponse);
  EXPECT_FALSE(usual.data.packing);
  EXPECT_EQ(usual.distill.teacher, "/models/big");
  EXPECT_EQ(usual.distill.temperature, 2);
  EXPECT_EQ(usual.distill.alpha, 0.5);
  train["distill"].update({{"temperature", 1.5}, {"alpha", 1}});
  train["data"].update({{"columns", {{"messages", "m"}}}, {"loss", "all"}});
  ASSERT_THAT(check_train(train, 1, "t"), IsEmpty());
  EXPECT_EQ(decode_train(train).distill.temperature, 1.5);
}

TEST(TaskCheckTest, WhatPairsDoNotGoWithIsRefusedByName) {
  struct Row {
    const char* task;
    json change;
    const char *field, *said;
  };
  const std::vector<Row> table = {
      {"sft", {{"preference", {{"beta", 1}}}}, "t.preference", "needs task dpo, orpo or reward"},
      {"sft",
       {{"data", {{"columns", {{"chosen", "c"}}}}}},
       "t.data.columns.chosen",
       "needs task dpo, orpo or reward"},
      {"dpo",
       {{"data", {{"columns", {{"completion", "c"}}}}}},
       "t.data.columns.completion",
       "needs task sft"},
      {"dpo", {{"data", {{"loss", "all"}}}}, "t.data.loss", "needs task sft"},
      {"dpo", {{"data", {{"packing", true}}}}, "t.data.packing", "task dpo does not pack"},
      {"orpo",
       {{"data", {{"format", "text"}}}},
       "t.data.format",
       "task orpo needs auto or messages, found \"text\""},
      {"dpo",
       {{"tokenizer", {{"type", "bytes"}, {"path", nullptr}}}},
       "t.tokenizer.type",
       "task dpo needs type hf"},
      {"orpo",
       {{"preference", {{"lossType", "ipo"}}}},
       "t.preference.lossType",
       "needs task dpo, found \"ipo\""},
      {"dpo",
       {{"preference", {{"lossType", "ipo"}, {"labelSmoothing", 0.1}}}},
       "t.preference.labelSmoothing",
       "needs task dpo and lossType sigmoid"},
      {"dpo", {{"preference", {{"beta", 0}}}}, "t.preference.beta", "must be greater than 0"},
      {"reward",
       {{"preference", {{"beta", 0.5}}}},
       "t.preference.beta",
       "needs task dpo or orpo, found 0.5"},
      {"orpo",
       {{"preference", {{"centerCoefficient", 0.01}}}},
       "t.preference.centerCoefficient",
       "needs task reward, found 0.01"},
      {"reward",
       {{"preference", {{"lossType", "hinge"}}}},
       "t.preference.lossType",
       "needs task dpo, found \"hinge\""},
      {"reward",
       {{"data", {{"format", "tokens"}}}},
       "t.data.format",
       "task reward needs auto or messages"},
      {"reward",
       {{"model", {{"config", {{"model_type", "granite"}}}}}},
       "t.task",
       "reward: Transformers has no granite whose head tells one number"},
      {"reward",
       {{"model", {{"frozen", {"head"}}}}},
       "t.model.frozen",
       "freezes the head, which begins untrained"},
      {"distill", json::object(), "t.distill.teacher", "is required: the task is distill"},
      {"sft", {{"distill", {{"teacher", "/big"}}}}, "t.distill", "needs task distill"},
      {"distill",
       {{"distill", {{"teacher", "/big"}, {"alpha", 1.5}}}},
       "t.distill.alpha",
       "must be"},
      {"distill", {{"distill", {{"teacher", "hf://no such"}}}}, "t.distill.teacher", ""},
      {"distill",
       {{"distill", {{"teacher", "/big"}}}, {"data", {{"columns", {{"chosen", "c"}}}}}},
       "t.data.columns.chosen",
       "needs task dpo, orpo or reward"},
  };
  for (const Row& row : table) {
    json train = sft();
    train["task"] = row.task;
    train.merge_patch(row.change);
    const Problems problems = check_train(train, 1, "t");
    ASSERT_EQ(problems.size(), 1U) << row.change.dump();
    EXPECT_EQ(problems[0].path, row.field);
    EXPECT_THAT(problems[0].message, HasSubstr(row.said));
  }
}

}  // namespace
}  // namespace lockstep::common
