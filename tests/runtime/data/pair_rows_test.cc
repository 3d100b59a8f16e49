#include "runtime/data/pair_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/byte_tokenizer.h"
#include "runtime/data/conversation_tokenizer.h"
#include "runtime/data/token_source.h"
#include "runtime/data/tokenize.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/runtime/text/word_tokenizer.h"

namespace lockstep::runtime {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

ordered_json said(const char* role, const char* content) {
  return {{"role", role}, {"content", content}};
}

common::Result<AnswerPair> pair_of(const ordered_json& row) {
  const auto layout = find_pair_layout(row, {});
  if (!layout) return layout.error();
  return pair_in(row, *layout);
}

TEST(PairRowsTest, APromptOfItsOwnIsTaken) {
  const auto texts = pair_of({{"prompt", "a "}, {"chosen", "b"}, {"rejected", "c"}});
  ASSERT_TRUE(texts) << texts.error().message;
  EXPECT_EQ(texts->prompt, "a ");
  EXPECT_EQ(texts->chosen, "b");
  const ordered_json prompt = {said("user", "a")};
  const auto talks = pair_of({{"prompt", prompt},
                              {"chosen", {said("assistant", "b")}},
                              {"rejected", {said("assistant", "c")}}});
  ASSERT_TRUE(talks) << talks.error().message;
  EXPECT_EQ(talks->prompt, prompt);
  EXPECT_EQ(talks->rejected, ordered_json({said("assistant", "c")}));
}

// As TRL's extract_prompt() splits them.
TEST(PairRowsTest, WithoutOneItIsWhatBothAnswersBeginWith) {
  struct Row {
    const char *chosen, *rejected, *prompt;
  };
  const std::vector<Row> table = {
      {"Q: x A: yes", "Q: x A: no", "Q: x A:"},  // no space at its end
      {"ab", "ac", "a"},
      {"b", "c", ""},
      {"ab", "abc", "a"},            // something is left of either
      {"\xC3\xA9", "\xC3\xA8", ""},  // no half of a code point
      {"x\xC3\xA9", "x\xC3\xA9!", "x"},
  };
  for (const Row& row : table) {
    const auto pair = pair_of({{"chosen", row.chosen}, {"rejected", row.rejected}});
    ASSERT_TRUE(pair) << row.chosen;
    EXPECT_EQ(pair->prompt, row.prompt) << row.chosen;
    EXPECT_EQ(pair->prompt.get<std::string>() + pair->chosen.get<std::string>(), row.chosen);
    EXPECT_EQ(pair->prompt.get<std::string>() + pair->rejected.get<std::string>(), row.rejected);
  }
  const ordered_json chosen = {said("user", "a"), said("assistant", "b")};
  const ordered_json rejected = {said("user", "a"), said("assistant", "c")};
  for (const ordered_json& row :
       {ordered_json{{"chosen", chosen}, {"rejected", rejected}},
        ordered_json{{"prompt", "a"}, {"chosen", chosen}, {"rejected", rejected}}}) {
    const auto pair = pair_of(row);
    ASSERT_TRUE(pair) << pair.error().message;
    EXPECT_EQ(pair->prompt, ordered_json({said("user", "a")}));
    EXPECT_EQ(pair->chosen, ordered_json({said("assistant", "b")}));
  }
}

TEST(PairRowsTest, ShareGptMessagesAreTaken) {
  const auto pair = pair_of({{"prompt", {{{"from", "human"}, {"value", "a"}}}},
                             {"chosen", {{{"from", "gpt"}, {"value", "b"}}}},
                             {"rejected", {{{"from", "gpt"}, {"value", "c"}}}}});
  ASSERT_TRUE(pair) << pair.error().message;
  EXPECT_EQ(pair->chosen, ordered_json({said("assistant", "b")}));
}

TEST(PairRowsTest, WhatIsNoPairIsRefusedByItsField) {
  const ordered_json talk = {said("user", "a"), said("assistant", "b")};
  const std::vector<std::pair<ordered_json, const char*>> table = {
      {{{"prompt", "a"}, {"chosen", "b"}}, "has no field \"rejected\"; its fields: prompt, chosen"},
      {{{"answer", "b"}}, "has no field \"chosen\"; its fields: answer"},
      {{{"chosen", 1}, {"rejected", "b"}}, "\"chosen\" is a JSON number, neither a text nor"},
      {{{"chosen", "a"}, {"rejected", talk}}, "one is a text, the other a list of messages"},
      {{{"prompt", talk}, {"chosen", "a"}, {"rejected", "b"}}, "\"prompt\" is a list of messages"},
      {{{"chosen", {said("assistant", "b")}}, {"rejected", {said("assistant", "c")}}},
       "have no message in common"},
      {{{"chosen", {{{"role", "user"}}}}, {"rejected", talk}}, "\"chosen\"[0] has no \"content\""},
      {{{"chosen", ordered_json::array()}, {"rejected", talk}}, "\"chosen\" has no messages"},
  };
  for (const auto& [row, what] : table) {
    const auto pair = pair_of(row);
    ASSERT_FALSE(pair) << row.dump();
    EXPECT_THAT(pair.error().message, HasSubstr(what));
  }
}

TEST(PairRowsTest, ColumnsNameTheFields) {
  const ordered_json row = {{"q", "a"}, {"good", "b"}, {"bad", "c"}};
  const auto layout = find_pair_layout(row, {.prompt = "q", .chosen = "good", .rejected = "bad"});
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(to_text(*layout), "chosen in \"good\", rejected in \"bad\", prompt in \"q\"");
  const auto missing = find_pair_layout(row, {.prompt = "p", .chosen = "good", .rejected = "bad"});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("has no field \"p\""));
}

// Both answers are learned from the same place on: the first where one differs from the prompt.
TEST(PairRowsTest, LabelsBeginWhereTheAnswersDo) {
  TempFolder folder;
  write_text(folder / "tokenizer.json", word_tokenizer().dump());
  write_text(folder / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  ConversationOptions options;
  options.tokenizer = folder.path();
  options.layout = *find_pair_layout({{"prompt", ""}, {"chosen", ""}, {"rejected", ""}}, {});
  const auto opened = ConversationTokenizer::open(options);
  ASSERT_TRUE(opened) << opened.error().message;
  const LinePlace place{.file = "a.jsonl", .line = 3};
  const auto rows =
      opened->encode_pair(R"({"prompt": "a b ", "chosen": "a </s>", "rejected": "b b"})", place);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_THAT((*rows)[0].input_ids, ElementsAre(9, 1, 2, 1, 5));
  EXPECT_THAT((*rows)[0].labels, ElementsAre(kNoLabel, kNoLabel, kNoLabel, 1, 5));
  EXPECT_THAT((*rows)[1].input_ids, ElementsAre(9, 1, 2, 2, 2, 5));
  EXPECT_THAT((*rows)[1].labels, ElementsAre(kNoLabel, kNoLabel, kNoLabel, 2, 2, 5));
  // "ab" is one word: the last of the prompt is another with either answer.
  const auto joined =
      opened->encode_pair(R"({"prompt": "a b", "chosen": " a", "rejected": "b"})", place);
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_THAT((*joined)[0].labels, ElementsAre(kNoLabel, kNoLabel, 2, 1, 5));
  EXPECT_THAT((*joined)[1].labels, ElementsAre(kNoLabel, kNoLabel, 0, 5));
  const auto broken = opened->encode_pair(R"({"prompt": "a", "chosen": "b"})", place);
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("a.jsonl:3: has no field \"rejected\""));
}

TEST(PairRowsTest, WithoutAPairThatFitsASampleTheirLengthIsToBlame) {
  TempFolder folder;
  write_text(folder / "tokenizer.json", word_tokenizer().dump());
  const std::string rows = folder / "pairs.jsonl";
  const std::string row = R"({"prompt": "a b a b ", "chosen": "a", "rejected": "b"})";
  write_text(rows, row + "\n" + row + "\n");
  ConversationOptions options;
  options.tokenizer = folder.path();
  options.layout = *find_pair_layout({{"prompt", ""}, {"chosen", ""}, {"rejected", ""}}, {});
  options.sample_tokens = 2;
  const auto conversations = ConversationTokenizer::open(options);
  ASSERT_TRUE(conversations) << conversations.error().message;
  const std::unique_ptr<Disk> disk = real_disk();
  const ByteTokenizer unused;
  Tokenization work(
      *disk, folder / "out/data.tokens",
      {.files = {rows}, .kind = SourceKind::kConversations, .conversations = &*conversations},
      unused);
  const auto done = work.advance(std::chrono::hours(1));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message,
            "none of the 2 pairs has a token of both answers within a sample");
  EXPECT_THAT(done.error().hint, HasSubstr("train.data.sequenceLength"));
}

TEST(PairRowsTest, AMissingTemplateNamesTheFieldsOfTextsThatNeedNone) {
  TempFolder folder;
  write_text(folder / "tokenizer.json", word_tokenizer().dump());
  ConversationOptions options;
  options.tokenizer = folder.path();
  options.layout = *find_pair_layout({{"prompt", ""}, {"chosen", ""}, {"rejected", ""}}, {});
  const auto opened = ConversationTokenizer::open(options);
  ASSERT_TRUE(opened) << opened.error().message;
  const ordered_json row = {{"prompt", {said("user", "a")}},
                            {"chosen", {said("assistant", "b")}},
                            {"rejected", {said("assistant", "c")}}};
  const auto rows = opened->encode_pair(row.dump(), {.file = "a.jsonl", .line = 3});
  ASSERT_FALSE(rows);
  EXPECT_THAT(rows.error().message, HasSubstr("has no chat template"));
  EXPECT_THAT(rows.error().hint, HasSubstr("texts in \"prompt\", \"chosen\" and \"rejected\""));
}

}  // namespace
}  // namespace lockstep::runtime
