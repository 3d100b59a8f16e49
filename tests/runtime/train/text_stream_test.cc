#include "runtime/train/text_stream.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

using ::testing::ElementsAre;

Vocabulary vocabulary_of(const nlohmann::json& tokenizer) {
  Vocabulary vocabulary;
  vocabulary.tokenizer = HfTokenizer::open(tokenizer.dump(), "test").value();
  vocabulary.num_tokens = vocabulary.tokenizer->num_ids();
  return vocabulary;
}

// Tokens are bytes, as byte-level BPE spells them: C3 A4 is U+00E4, EA AE AB is U+ABAB.
Vocabulary bytes() {
  return vocabulary_of({{"version", "1.0"},
                        {"decoder",
                         {{"type", "ByteLevel"},
                          {"add_prefix_space", false},
                          {"trim_offsets", true},
                          {"use_regex", true}}},
                        {"model",
                         {{"type", "BPE"},
                          {"vocab",
                           {{"a", 0},
                            {"\u00C3", 1},
                            {"\u00A4", 2},
                            {"\u00EA", 3},
                            {"\u00AE", 4},
                            {"\u00AB", 5},
                            {"\u0120", 6}}},
                          {"merges", nlohmann::json::array()}}}});
}

Vocabulary words() {
  return vocabulary_of({{"version", "1.0"},
                        {"added_tokens",
                         {{{"id", 2},
                           {"content", "<end>"},
                           {"special", true},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false}}}},
                        {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                        {"model",
                         {{"type", "WordLevel"},
                          {"unk_token", "one"},
                          {"vocab", {{"one", 0}, {"two", 1}, {"<end>", 2}}}}}});
}

std::vector<std::string> pieces(const Vocabulary& vocabulary, const std::vector<int32_t>& tokens) {
  TextStream stream(vocabulary);
  std::vector<std::string> pieces;
  for (const int32_t token : tokens) pieces.push_back(stream.add(token));
  pieces.push_back(stream.finish());
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

TEST(TextStreamTest, ACharacterAppearsWhenItIsComplete) {
  EXPECT_THAT(pieces(bytes(), {0, 1, 2, 3, 4, 5, 0}),
              ElementsAre("a", "", "\u00E4", "", "", "\uABAB", "a", ""));
}

TEST(TextStreamTest, ACharacterThatNeverBecomesCompleteIsReplacedAtTheEnd) {
  EXPECT_THAT(pieces(bytes(), {0, 3, 4}), ElementsAre("a", "", "", "\uFFFD"));
}

TEST(TextStreamTest, PiecesAreTheTextOfAllTokensTogether) {
  for (const std::vector<int32_t>& tokens :
       {std::vector<int32_t>{0, 6, 1, 2, 6, 6, 0}, {2, 1, 0, 3, 0}, {6, 0}, {}}) {
    const Vocabulary vocabulary = bytes();
    EXPECT_EQ(joined(pieces(vocabulary, tokens)), vocabulary.decode(tokens));
  }
}

TEST(TextStreamTest, WordsKeepTheSpacesBetweenThem) {
  EXPECT_THAT(pieces(words(), {0, 1, 0}), ElementsAre("one", " two", " one", ""));
}

TEST(TextStreamTest, SpecialTokensHaveNoText) {
  EXPECT_EQ(joined(pieces(words(), {0, 2, 1, 2})), words().decode(std::vector<int32_t>{0, 1}));
}

}  // namespace
}  // namespace lockstep::runtime
