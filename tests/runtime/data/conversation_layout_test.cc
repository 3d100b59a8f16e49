#include "runtime/data/conversation_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ConversationColumns;
using nlohmann::ordered_json;
using ::testing::HasSubstr;
using Kind = ConversationLayout::Kind;

ordered_json row_of(const char* text) {
  return ordered_json::parse(text);
}

TEST(ConversationLayoutTest, ARowShowsItsLayoutByItsFields) {
  const std::vector<std::pair<const char*, const char*>> table = {
      {R"({"id": 1, "messages": [], "text": "a"})", "messages in \"messages\""},
      {R"({"conversations": []})", "messages in \"conversations\""},
      {R"({"prompt": "a", "completion": "b"})",
       "prompt in \"prompt\", completion in \"completion\""},
      {R"({"instruction": "a", "input": "", "output": "b"})",
       "instruction in \"instruction\", input in \"input\", response in \"output\""},
      {R"({"instruction": "a", "response": "b"})",
       "instruction in \"instruction\", input in \"input\", response in \"response\""},
      {R"({"question": "a", "answer": "b"})",
       "instruction in \"question\", response in \"answer\""},
  };
  for (const auto& [row, layout] : table) {
    const auto found = find_layout(row_of(row), ConversationColumns());
    ASSERT_TRUE(found) << row << found.error().message;
    EXPECT_EQ(to_text(*found), layout);
  }
}

TEST(ConversationLayoutTest, NamedColumnsOverrideWhatARowShows) {
  const ordered_json row = row_of(R"({"messages": [], "talk": [], "q": "a", "a": "b"})");
  ConversationColumns columns;
  columns.messages = "talk";
  EXPECT_EQ(to_text(*find_layout(row, columns)), "messages in \"talk\"");
  columns = {};
  columns.prompt = "q";
  columns.completion = "a";
  EXPECT_EQ(find_layout(row, columns)->kind, Kind::kCompletion);
  columns = {};
  columns.instruction = "q";
  columns.response = "a";
  EXPECT_EQ(find_layout(row, columns)->kind, Kind::kInstruction);
  columns.response = "";
  const auto error = find_layout(row, columns).error();
  EXPECT_EQ(error.message, "has no field \"response\"; its fields: messages, talk, q, a");
  EXPECT_THAT(error.hint, HasSubstr("train.data.columns"));
}

TEST(ConversationLayoutTest, TheFirstLineOfTheFilesThatIsNotBlankTells) {
  const TempFolder folder;
  write_text(folder / "a.jsonl", "\n \n");
  write_text(folder / "b.jsonl", "\n{\"messages\": []}\n{\"prompt\": 1}\n");
  EXPECT_EQ(find_layout_of({folder / "a.jsonl", folder / "b.jsonl"}, {})->messages, "messages");
  write_text(folder / "b.jsonl", "\n{\"body\": \"a\", \"id\": 2}\n");
  const auto error = find_layout_of({folder / "b.jsonl"}, {}).error();
  EXPECT_EQ(error.message, (folder / "b.jsonl") +
                               ":2: has no field that holds a conversation; its fields: body, id");
  EXPECT_THAT(find_layout_of({folder / "a.jsonl"}, {}).error().message, HasSubstr("empty corpus"));
  write_text(folder / "b.jsonl", "[1]\n");
  EXPECT_THAT(find_layout_of({folder / "b.jsonl"}, {}).error().message,
              HasSubstr(":1: holds a JSON array, not an object"));
}

TEST(ConversationLayoutTest, MessagesOfShareGptBecomeThoseOfTemplates) {
  const auto messages = messages_in(
      row_of(R"({"c": [{"from": "system", "value": "s"}, {"from": "human", "value": "h"},
                                   {"from": "gpt", "value": "g"}, {"from": "tool", "value": "t"}]})"),
      "c");
  ASSERT_TRUE(messages) << messages.error().message;
  EXPECT_EQ(*messages,
            row_of(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "h"},
                                  {"role": "assistant", "content": "g"},
                                  {"role": "tool", "content": "t"}])"));
}

TEST(ConversationLayoutTest, MessagesKeepTheirOtherKeys) {
  const ordered_json row = row_of(
      R"({"m": [{"role": "assistant", "content": null, "tool_calls": [{"id": 1}]},
                {"role": "assistant", "tool_calls": []},
                {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "x"}]})");
  EXPECT_EQ(*messages_in(row, "m"), row.at("m"));
}

TEST(ConversationLayoutTest, AMessageThatIsNoneIsNamed) {
  const std::vector<std::pair<const char*, const char*>> table = {
      {R"({"n": []})", "has no field \"m\"; its fields: n"},
      {R"({"m": "a"})", "\"m\" is a JSON string, not a list of messages"},
      {R"({"m": []})", "\"m\" has no messages"},
      {R"({"m": ["a"]})", "\"m\"[0] is a JSON string, not a message"},
      {R"({"m": [{"role": "user", "content": "a"}, {"content": "a"}]})",
       "\"m\"[1] has no \"role\""},
      {R"({"m": [{"role": 1, "content": "a"}]})", "\"m\"[0]: \"role\" is 1, not a text"},
      {R"({"m": [{"role": "user"}]})", "\"m\"[0] has no \"content\""},
      {R"({"m": [{"role": "user", "content": null}]})", "\"m\"[0]: \"content\" is a JSON null"},
      {R"({"m": [{"role": "user", "content": 4}]})", "\"m\"[0]: \"content\" is a JSON number"},
      {R"({"m": [{"from": "human"}]})", "\"m\"[0] has no \"value\""},
      {R"({"m": [{"from": "nobody", "value": "a"}]})", "\"m\"[0]: nobody is called \"nobody\""},
  };
  for (const auto& [row, said] : table) {
    const auto messages = messages_in(row_of(row), "m");
    ASSERT_FALSE(messages) << row;
    EXPECT_THAT(messages.error().message, HasSubstr(said));
  }
}

TEST(ConversationLayoutTest, AnInstructionIsAskedWithItsInputAndAnswered) {
  const ordered_json full =
      row_of(R"({"system": "s", "instruction": "a", "input": "b", "output": "c"})");
  const ConversationLayout layout = *find_layout(full, {});
  EXPECT_EQ(*messages_of_instruction(full, layout),
            row_of(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a\n\nb"},
                       {"role": "assistant", "content": "c"}])"));
  const ordered_json bare = row_of(R"({"instruction": "a", "input": "", "output": "c"})");
  EXPECT_EQ(messages_of_instruction(bare, layout)->at(0).at("content"), "a");
  const auto error =
      messages_of_instruction(row_of(R"({"instruction": "a", "output": 3})"), layout).error();
  EXPECT_EQ(error.message, "\"output\" is a JSON number, not a text");
}

}  // namespace
}  // namespace lockstep::runtime
