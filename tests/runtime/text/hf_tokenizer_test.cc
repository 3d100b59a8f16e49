#include "runtime/text/hf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/text/word_tokenizer.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HfTokenizer open(const json& file) {
  auto opened = HfTokenizer::open(file.dump(), "tokenizer.json");
  EXPECT_TRUE(opened) << opened.error().message;
  return std::move(opened).value();
}

std::string refusal(const std::string& file) {
  const auto opened = HfTokenizer::open(file, "dir/tokenizer.json");
  EXPECT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(opened.error().message, HasSubstr("dir/tokenizer.json: "));
  return opened.error().message;
}

TEST(HfTokenizerTest, TextBecomesIdsAndTheirPlacesInCodePoints) {
  const HfTokenizer tokenizer = open(word_tokenizer());
  const auto encoding = tokenizer.encode("b \xC3\xA9 zz a", false);
  ASSERT_TRUE(encoding) << encoding.error().message;
  EXPECT_THAT(encoding->ids, ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(encoding->offsets,
              ElementsAre(TextSpan{0, 1}, TextSpan{2, 3}, TextSpan{4, 6}, TextSpan{7, 8}));
}

TEST(HfTokenizerTest, SpecialTokensAreAddedOnRequest) {
  const HfTokenizer tokenizer = open(word_tokenizer());
  EXPECT_THAT(tokenizer.encode("a", true)->ids, ElementsAre(9, 1));
  EXPECT_THAT(tokenizer.encode("a", false)->ids, ElementsAre(1));
  EXPECT_THAT(tokenizer.encode("a </s> b", false)->ids, ElementsAre(1, 5, 2));
}

TEST(HfTokenizerTest, IdsBecomeText) {
  const HfTokenizer tokenizer = open(word_tokenizer());
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{9, 1, 3, 5}, false).value(),
            "<s> a \xC3\xA9 </s>");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{9, 1, 3, 5, 7}, true).value(), "a \xC3\xA9");
}

TEST(HfTokenizerTest, IdsMayHaveHoles) {
  const HfTokenizer tokenizer = open(word_tokenizer());
  EXPECT_EQ(tokenizer.num_ids(), 10);
  EXPECT_EQ(tokenizer.num_model_ids(), 10);
  EXPECT_EQ(tokenizer.id_of("</s>"), 5);
  EXPECT_EQ(tokenizer.id_of("none"), std::nullopt);
  EXPECT_EQ(tokenizer.id_of("\xFF"), std::nullopt);
}

TEST(HfTokenizerTest, TruncationAndPaddingAreForBatches) {
  json file = word_tokenizer();
  file["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  EXPECT_THAT(open(file).encode("a b a b", true)->ids, ElementsAre(9, 1, 2, 1, 2));
}

TEST(HfTokenizerTest, TextThatIsNotUtf8NamesTheByte) {
  const auto encoding = open(word_tokenizer()).encode("ab\xFF", false);
  ASSERT_FALSE(encoding);
  EXPECT_EQ(encoding.error().message, "tokenizer.json: the text is not UTF-8: byte 2");
}

TEST(HfTokenizerTest, WhatCannotBeCarriedOutIsRefused) {
  json file = word_tokenizer();
  file["normalizer"] = {{"type", "Sarcasm"}};
  EXPECT_THAT(refusal(file.dump()), HasSubstr("ormalizer"));
  file = word_tokenizer();
  file["model"]["type"] = "Telepathy";
  refusal(file.dump());
  refusal("{");
  refusal("");
}

}  // namespace
}  // namespace lockstep::runtime
