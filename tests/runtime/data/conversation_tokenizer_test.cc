#include "runtime/data/conversation_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/token_source.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/runtime/text/word_tokenizer.h"

namespace lockstep::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = ConversationLayout::Kind;

constexpr std::chrono::system_clock::time_point kNow{std::chrono::seconds(1'700'000'000)};
constexpr char kMarked[] =
    "<s> {% for m in messages %}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }} </s> {% endgeneration %}{% else %}{{ m.content }} {% endif %}"
    "{% endfor %}";
// "b" asks for an answer.
constexpr char kUnmarked[] =
    "<s> {% for m in messages %}{% if m.role == 'assistant' %}b {{ m.content }} </s> "
    "{% else %}{{ m.content }} {% endif %}{% endfor %}{% if add_generation_prompt %}b {% endif %}";
constexpr char kTwoTurns[] =
    R"({"messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "b"},
                     {"role": "user", "content": "a"}, {"role": "assistant", "content": "a b"}]})";

class ConversationTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "tokenizer.json", word_tokenizer().dump());
    write_text(folder_ / "tokenizer_config.json", R"({"eos_token": "</s>"})");
    write_template(kMarked);
    options_.tokenizer = folder_.path();
    options_.layout.messages = "messages";
    options_.now = kNow;
  }
  void write_template(const std::string& text) {
    write_text(folder_ / "chat_template.jinja", text);
  }
  void expect_completions() {
    options_.layout.kind = Kind::kCompletion;
    options_.layout.asked = "prompt";
    options_.layout.answered = "completion";
  }
  common::Result<TokenRow> encode(const std::string& line) const {
    const auto opened = ConversationTokenizer::open(options_);
    if (!opened) return opened.error();
    return opened->encode(line, {.file = "a.jsonl", .line = 7});
  }
  std::string name() const { return ConversationTokenizer::open(options_)->name(); }

  TempFolder folder_;
  ConversationOptions options_;
};

TEST_F(ConversationTokenizerTest, OnlyWhatTheAssistantSaysIsLearned) {
  const auto row = encode(kTwoTurns);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_THAT(row->input_ids, ElementsAre(9, 1, 2, 2, 5, 1, 1, 2, 5));
  EXPECT_THAT(row->labels, ElementsAre(kNoLabel, kNoLabel, kNoLabel, 2, 5, kNoLabel, 1, 2, 5));
}

TEST_F(ConversationTokenizerTest, WithoutMarksItIsWhatFollowsTheGenerationPrompt) {
  write_template(kUnmarked);
  const auto row = encode(kTwoTurns);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_THAT(row->input_ids, ElementsAre(9, 1, 2, 2, 2, 5, 1, 2, 1, 2, 5));
  EXPECT_THAT(row->labels, ElementsAre(kNoLabel, kNoLabel, kNoLabel, kNoLabel, 2, 5, kNoLabel,
                                       kNoLabel, 1, 2, 5));
}

// Places are code points, not bytes: U+00E9 has two.
TEST_F(ConversationTokenizerTest, WithoutMarksPlacesAreCodePoints) {
  write_template(kUnmarked);
  const auto row = encode(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"\xC3\xA9 \xC3\xA9\"}, "
      "{\"role\": \"assistant\", \"content\": \"\xC3\xA9 a\"}]}");
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_THAT(row->input_ids, ElementsAre(9, 3, 3, 2, 3, 1, 5));
  EXPECT_THAT(row->labels, ElementsAre(kNoLabel, kNoLabel, kNoLabel, kNoLabel, 3, 1, 5));
}

TEST_F(ConversationTokenizerTest, AnAnswerThatIsWrittenOtherwiseOnceMoreFollowsIsRefused) {
  write_template(
      "{% for m in messages %}{% if loop.last or m.role == 'user' %}{{ m.content }} {% endif %}"
      "{% endfor %}");
  const auto row = encode(kTwoTurns);
  ASSERT_FALSE(row);
  EXPECT_THAT(row.error().message, HasSubstr("a.jsonl:7: "));
  EXPECT_THAT(row.error().message,
              HasSubstr("does not say which text is the assistant's: message"));
  EXPECT_THAT(row.error().hint, HasSubstr("{% generation %}"));
}

TEST_F(ConversationTokenizerTest, AllIsLearnedWhereThatIsAsked) {
  options_.learns_all = true;
  const auto row = encode(kTwoTurns);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_EQ(row->input_ids.size(), 9U);
  EXPECT_THAT(row->labels, IsEmpty());
}

TEST_F(ConversationTokenizerTest, InstructionsAndShareGptAreConversations) {
  const auto messages = encode(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  options_.layout.messages = "conversations";
  const auto shared = encode(
      R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})");
  options_.layout = {};
  options_.layout.kind = Kind::kInstruction;
  options_.layout.asked = "question";
  options_.layout.answered = "answer";
  const auto asked = encode(R"({"question": "a", "answer": "b"})");
  ASSERT_TRUE(messages && shared && asked);
  EXPECT_THAT(messages->labels, ElementsAre(kNoLabel, kNoLabel, 2, 5));
  EXPECT_EQ(shared->input_ids, messages->input_ids);
  EXPECT_EQ(shared->labels, messages->labels);
  EXPECT_EQ(asked->input_ids, messages->input_ids);
  EXPECT_EQ(asked->labels, messages->labels);
}

TEST_F(ConversationTokenizerTest, OfTextsTheCompletionAndItsEndAreLearned) {
  expect_completions();
  const auto row = encode(R"({"prompt": "a b", "completion": " a "})");
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_THAT(row->input_ids, ElementsAre(9, 1, 2, 1, 5));
  EXPECT_THAT(row->labels, ElementsAre(kNoLabel, kNoLabel, kNoLabel, 1, 5));
}

TEST_F(ConversationTokenizerTest, ATokenThatReachesIntoTheCompletionIsLearned) {
  expect_completions();
  const auto row = encode(R"({"prompt": "b \u00e9", "completion": "b a"})");
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_THAT(row->input_ids, ElementsAre(9, 2, 0, 1, 5)) << "\\u00e9b is one word, unknown";
  EXPECT_THAT(row->labels, ElementsAre(kNoLabel, kNoLabel, 0, 1, 5));
}

TEST_F(ConversationTokenizerTest, OfMessagesTheCompletionIsWhatFollowsThePrompt) {
  expect_completions();
  const auto row = encode(R"({"prompt": [{"role": "user", "content": "a"}],
                              "completion": [{"role": "assistant", "content": "b"}]})");
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_THAT(row->input_ids, ElementsAre(9, 1, 2, 5));
  EXPECT_THAT(row->labels, ElementsAre(kNoLabel, kNoLabel, 2, 5));
}

TEST_F(ConversationTokenizerTest, RowsThatAreWrongNamePlaceAndField) {
  EXPECT_THAT(encode("{").error().message, HasSubstr("a.jsonl:7: is not JSON"));
  EXPECT_THAT(encode(R"({"text": "a"})").error().message,
              HasSubstr("a.jsonl:7: has no field \"messages\"; its fields: text"));
  EXPECT_THAT(encode(R"({"messages": [{"content": "a"}]})").error().message,
              HasSubstr("a.jsonl:7: \"messages\"[0] has no \"role\""));
  expect_completions();
  EXPECT_THAT(encode(R"({"prompt": "a"})").error().message,
              HasSubstr("a.jsonl:7: has no field \"completion\"; its fields: prompt"));
  EXPECT_THAT(encode(R"({"prompt": "a", "completion": []})").error().message,
              HasSubstr("a.jsonl:7: \"prompt\" is a JSON string, not a list of messages"));
}

TEST_F(ConversationTokenizerTest, ATemplateThatRefusesIsQuoted) {
  write_template("{{ raise_exception('no users') }}");
  EXPECT_THAT(encode(kTwoTurns).error().message, HasSubstr("a.jsonl:7: "));
  EXPECT_THAT(encode(kTwoTurns).error().message, HasSubstr("line 1: no users"));
}

TEST_F(ConversationTokenizerTest, ATemplateThatIsMissingIsSaidBeforeAnyRow) {
  std::filesystem::remove(folder_ / "chat_template.jinja");
  EXPECT_THAT(ConversationTokenizer::open(options_).error().message,
              HasSubstr("has no chat template"));
  expect_completions();
  EXPECT_TRUE(encode(R"({"prompt": "a", "completion": "b"})")) << "texts need none";
  EXPECT_THAT(encode(R"({"prompt": [{"role": "user", "content": "a"}],
                         "completion": [{"role": "assistant", "content": "b"}]})")
                  .error()
                  .message,
              HasSubstr("a.jsonl:7: " + folder_.path() + " has no chat template"));
}

TEST_F(ConversationTokenizerTest, ARowTeachesIfALabelLiesWithinASample) {
  const ConversationTokenizer whole = ConversationTokenizer::open(options_).value();
  options_.sample_tokens = 2;
  const ConversationTokenizer cut = ConversationTokenizer::open(options_).value();
  const TokenRow at_first = {.input_ids = {1, 2, 3, 4}, .labels = {1, -1, -1, -1}};
  const TokenRow at_third = {.input_ids = {1, 2, 3, 4}, .labels = {-1, -1, 3, -1}};
  const TokenRow at_last = {.input_ids = {1, 2, 3, 4}, .labels = {-1, -1, -1, 4}};
  EXPECT_FALSE(whole.teaches(at_first)) << "nothing predicts the first token";
  EXPECT_TRUE(whole.teaches(at_last));
  EXPECT_TRUE(cut.teaches(at_third)) << "the second token predicts it";
  EXPECT_FALSE(cut.teaches(at_last));
}

TEST_F(ConversationTokenizerTest, OtherRowsHaveAnotherName) {
  const std::string before = name();
  EXPECT_LE(before.size(), 40U);
  EXPECT_EQ(name(), before);
  options_.now += std::chrono::hours(24);
  EXPECT_EQ(name(), before) << "this template does not ask for the time";
  options_.learns_all = true;
  EXPECT_NE(name(), before);
  options_.learns_all = false;
  write_template(std::string(kMarked) + "{{ strftime_now('%d') }}");
  const std::string timed = name();
  EXPECT_NE(timed, before);
  options_.now += std::chrono::hours(24);
  EXPECT_NE(name(), timed);
}

}  // namespace
}  // namespace lockstep::runtime
