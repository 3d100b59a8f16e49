#include "runtime/tracking/mlflow_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::Pair;
using testing::StartsWith;

TEST(MlflowBatchTest, AJobBecomesOneParamPerLeaf) {
  const json job = {{"ranks", 2},
                    {"train",
                     {{"optimizer", {{"betas", {0.9, 0.95}}, {"name", "adamw"}}},
                      {"lora", nullptr},
                      {"shuffle", true}}}};
  EXPECT_THAT(flatten_params(job, ""),
              ElementsAre(Pair("ranks", "2"), Pair("train.optimizer.betas", "[0.9,0.95]"),
                          Pair("train.optimizer.name", "adamw"), Pair("train.shuffle", "true")));
}

TEST(MlflowBatchTest, KeysAndTextsStayWithinWhatMlflowTakes) {
  const json wide = {
      {"a[0]", 1}, {"a_0_", 2}, {std::string(400, 'k'), 3}, {"long", std::string(7000, 'x')}};
  const MlflowTexts params = flatten_params(wide, "env");
  ASSERT_EQ(params.size(), 4U) << "keys that look alike then are kept apart";
  EXPECT_EQ(params.at("env.a_0_"), "2");
  for (const auto& [key, text] : params) {
    EXPECT_LE(key.size(), kMaxMlflowKey);
    EXPECT_EQ(key.find_first_of("[]"), std::string::npos) << key;
    EXPECT_LE(text.size(), kMaxMlflowParam);
  }
  EXPECT_TRUE(params.at("env.long").ends_with("x..."));
}

TEST(MlflowBatchTest, ATextIsCutAtACharacter) {
  std::string text(kMaxMlflowParam - 4, 'x');
  for (int i = 0; i < 10; ++i) text += "\xc3\xa9";
  const std::string cut = flatten_params(text, "t").at("t");
  EXPECT_TRUE(cut.ends_with("x...")) << cut.substr(cut.size() - 10);
}

TEST(MlflowBatchTest, TextsAreSentInParts) {
  MlflowTexts texts;
  for (int i = 0; i < 230; ++i) texts["key" + std::to_string(i)] = "v";
  const std::vector<json> parts = in_parts(texts, kMaxMlflowParams);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].size(), 100U);
  EXPECT_EQ(parts[2].size(), 30U);
  EXPECT_TRUE(in_parts({}, kMaxMlflowParams).empty());
}

TEST(MlflowBatchTest, ALineBecomesItsNumbers) {
  MetricsLine line;
  ASSERT_TRUE(read_metrics_line(
      R"({"step": 7, "loss": null, "skipped": true, "tokens": 12, "note": "none"})", line));
  json metrics = json::array();
  append_metrics(line, 1700, metrics);
  EXPECT_EQ(metrics, json::parse(R"([
    {"key": "loss", "value": "NaN", "timestamp": 1700, "step": 7},
    {"key": "skipped", "value": 1, "timestamp": 1700, "step": 7},
    {"key": "tokens", "value": 12, "timestamp": 1700, "step": 7}])"));
  EXPECT_FALSE(line.is_evaluation);
  ASSERT_TRUE(read_metrics_line(R"({"step": 7, "validation_loss": 2.5})", line));
  EXPECT_TRUE(line.is_evaluation);
}

TEST(MlflowBatchTest, WhatIsNoLineIsNone) {
  MetricsLine line;
  for (const char* const text : {"", "[]", "{\"loss\": 1}", "{\"step\": 1.5}", "{\"step\": 1,"}) {
    EXPECT_FALSE(read_metrics_line(text, line)) << text;
  }
}

TEST(MlflowBatchTest, TagsAreShortAndNeverEmpty) {
  const MlflowTexts tags = shortened_tags({{"a", ""}, {"b", std::string(9000, 'y')}});
  ASSERT_EQ(tags.size(), 1U);
  EXPECT_EQ(tags.at("b").size(), kMaxMlflowTag);
  EXPECT_THAT(tags.at("b"), StartsWith("yyy"));
}

}  // namespace
}  // namespace lockstep::runtime
