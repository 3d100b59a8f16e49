#include "runtime/data/json_documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const LinePlace kPlace{.file = "data/a.jsonl", .line = 12};

TEST(JsonDocumentsTest, ATextIsTheStringInItsColumn) {
  EXPECT_EQ(*parse_text_line(R"({"id": 1, "text": "a\n\u00e4\u0000"})", "text", kPlace),
            std::string("a\n\xC3\xA4\0", 5));
  EXPECT_EQ(*parse_text_line(R"({"body": "b"})", "body", kPlace), "b");
}

TEST(JsonDocumentsTest, ARowHasIdsAndMayHaveLabels) {
  const auto bare =
      parse_token_line(R"({"input_ids": [3, 0, 7], "attention_mask": [1]})", 8, kPlace);
  EXPECT_THAT(bare->input_ids, ElementsAre(3, 0, 7));
  EXPECT_THAT(bare->labels, IsEmpty());
  const auto row = parse_token_line(R"({"input_ids": [3, 0], "labels": [-100, 5]})", 8, kPlace);
  EXPECT_THAT(row->labels, ElementsAre(-1, 5));
  EXPECT_TRUE(is_token_line(R"({"input_ids": []})"));
  EXPECT_FALSE(is_token_line(R"({"text": "input_ids"})"));
  EXPECT_FALSE(is_token_line("{"));
}

TEST(JsonDocumentsTest, WhatIsWrongIsToldWithFileAndLine) {
  struct Case {
    std::string line;
    bool is_row;
    std::string message;
  };
  const std::vector<Case> table = {
      {"{\"text\": \"a", false, "is not JSON: column"},
      {"[1]", false, "holds a JSON array, not an object"},
      {R"({"body": "b", "id": 1})", false, "has no field \"text\"; its fields: body, id"},
      {R"({"text": 3})", false, "\"text\" is a JSON number, not a string"},
      {R"({"text": null})", false, "\"text\" is a JSON null, not a string"},
      {"{\"text\": \"\xFF\"}", false, "is not JSON"},
      {R"({"text": "a"})", true, "has no field \"input_ids\""},
      {R"({"input_ids": "1 2"})", true, "input_ids is not a list of integers"},
      {R"({"input_ids": [1, 2.5]})", true, "input_ids[1] is 2.5, not an id below 8"},
      {R"({"input_ids": [8]})", true, "input_ids[0] is 8, not an id below 8"},
      {R"({"input_ids": [-100]})", true, "input_ids[0] is -100"},
      {R"({"input_ids": [1], "labels": [-1]})", true, "labels[0] is -1"},
      {R"({"input_ids": [1, 2], "labels": [1]})", true, "has 2 input_ids and 1 labels"},
      {R"({"input_ids": [18446744073709551615]})", true, "input_ids[0] is 18446744073709551615"},
  };
  for (const Case& c : table) {
    const common::Error error = c.is_row ? parse_token_line(c.line, 8, kPlace).error()
                                         : parse_text_line(c.line, "text", kPlace).error();
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr("data/a.jsonl:12: ")) << c.line;
    EXPECT_THAT(error.message, HasSubstr(c.message)) << c.line;
  }
}

}  // namespace
}  // namespace lockstep::runtime
