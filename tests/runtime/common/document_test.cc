#include "runtime/common/document.h"

#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

using nlohmann::json;

json value_of(const std::string& text) {
  const ParsedText parsed = parse_documents(text);
  EXPECT_TRUE(parsed.problems.empty()) << text;
  return parsed.documents.size() == 1 ? parsed.documents.front().value : json("not one document");
}

TEST(DocumentTest, PlainScalarsFollowTheCoreSchema) {
  const std::vector<std::pair<std::string, json>> table = {
      {"1", 1},         {"-7", -7},         {"+7", 7},          {"0x1F", 31},
      {"0o17", 15},     {"010", 10},        {"1.5", 1.5},       {"3e-4", 3e-4},
      {"1E3", 1000.0},  {".5", 0.5},        {"5.", 5.0},        {"true", true},
      {"False", false}, {"null", nullptr},  {"~", nullptr},     {"yes", "yes"},
      {"no", "no"},     {"NO", "NO"},       {"on", "on"},       {"off", "off"},
      {"y", "y"},       {"1_000", "1_000"}, {"1e", "1e"},       {".", "."},
      {"-", "-"},       {"1:30", "1:30"},   {".inf", ".inf"},   {"1e999", "1e999"},
      {"64Gi", "64Gi"}, {"0x", "0x"},       {"1.2.3", "1.2.3"}, {"9223372036854775807", INT64_MAX},
  };
  for (const auto& [text, expected] : table) {
    if (text == "-") continue;  // a list item by itself
    EXPECT_EQ(value_of("a: " + text)["a"], expected) << text;
    EXPECT_EQ(value_of("a: " + text)["a"].type_name(), std::string(expected.type_name())) << text;
  }
  EXPECT_TRUE(value_of("a: 9223372036854775808")["a"].is_number_float());
}

TEST(DocumentTest, QuotedScalarsStayStrings) {
  EXPECT_EQ(value_of(R"(a: "1")")["a"], "1");
  EXPECT_EQ(value_of("a: 'true'")["a"], "true");
  EXPECT_EQ(value_of(R"(a: "")")["a"], "");
  EXPECT_EQ(value_of("a: !!str 5")["a"], "5");
}

TEST(DocumentTest, ReadsMinifiedAndIndentedJson) {
  const json original = {{"a", {1, 2.5, nullptr, true, "x\n\"y\" \\ \u00e9"}},
                         {"b", {{"c", json::object()}, {"d", json::array()}}}};
  EXPECT_EQ(value_of(original.dump()), original);
  EXPECT_EQ(value_of(original.dump(2)), original);
}

TEST(DocumentTest, LinesAreThoseOfKeysAndItems) {
  const ParsedText parsed = parse_documents(
      "# comment\n"
      "spec:\n"
      "  train:\n"
      "    steps: 3\n"
      "  inputs:\n"
      "  - name: a\n"
      "    mountPath: /a\n"
      "  - {name: b,\n"
      "     mountPath: /b}\n"
      "  limits:\n"
      "    nvidia.com/gpu: 1\n");
  ASSERT_EQ(parsed.documents.size(), 1U);
  const Document& document = parsed.documents.front();
  EXPECT_EQ(document.line_of("spec"), 2);
  EXPECT_EQ(document.line_of("spec.train.steps"), 4);
  EXPECT_EQ(document.line_of("spec.inputs[0].name"), 6);
  EXPECT_EQ(document.line_of("spec.inputs[1].mountPath"), 9);
  EXPECT_EQ(document.line_of("spec.limits[nvidia.com/gpu]"), 11);
  EXPECT_EQ(document.line_of("spec.train.missing.deep"), 3) << "nearest ancestor";
  EXPECT_EQ(document.line_of("other"), 0);
}

TEST(DocumentTest, DocumentsOfAFileKeepTheLinesOfTheFile) {
  const ParsedText parsed = parse_documents("a: 1\n---\nb: 2\n---\n# nothing\n---\nc: 3\n");
  ASSERT_EQ(parsed.documents.size(), 4U);
  EXPECT_EQ(parsed.documents[0].line_of("a"), 1);
  EXPECT_EQ(parsed.documents[1].line_of("b"), 3);
  EXPECT_TRUE(parsed.documents[2].value.is_null());
  EXPECT_EQ(parsed.documents[3].line_of("c"), 7);
}

TEST(DocumentTest, AliasesAndMergesAreExpanded) {
  const json value = value_of(
      "base: &base {x: 1, y: 2}\n"
      "list: [*base, *base]\n"
      "merged: {<<: *base, y: 3}\n");
  EXPECT_EQ(value["list"], json::parse(R"([{"x":1,"y":2},{"x":1,"y":2}])"));
  EXPECT_EQ(value["merged"], json::parse(R"({"x":1,"y":3})"));
}

TEST(DocumentTest, EveryDuplicateKeyIsAProblemWithBothLines) {
  const ParsedText parsed = parse_documents("a:\n  b: 1\n  b: 2\nc: 1\nc: 2\n");
  ASSERT_EQ(parsed.problems.size(), 2U);
  EXPECT_EQ(to_string(parsed.problems[0], "f"),
            "f:3: a.b: the key appears twice, first in line 2 (remove one of them)");
  EXPECT_EQ(parsed.problems[1].path, "c");
  EXPECT_EQ(parsed.problems[1].line, 5);
}

TEST(DocumentTest, SyntaxErrorsCarryLineAndColumn) {
  const std::vector<std::pair<std::string, int>> table = {
      {"a: 1\nb: [1, 2\nc: 3\n", 0}, {"a: b: c\n", 1},     {"a: \"unclosed\n", 0},
      {"a: 1\n b: 2\n", 0},          {"a: *nowhere\n", 1},
  };
  for (const auto& [text, line] : table) {
    const ParsedText parsed = parse_documents(text);
    ASSERT_EQ(parsed.problems.size(), 1U) << text;
    EXPECT_TRUE(parsed.documents.empty()) << text;
    EXPECT_GT(parsed.problems[0].line, 0) << text;
    if (line > 0) {
      EXPECT_EQ(parsed.problems[0].line, line) << text;
    }
    EXPECT_NE(parsed.problems[0].message.find("column "), std::string::npos) << text;
  }
}

TEST(DocumentTest, HostileTextsAreRefusedNotExpanded) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (const char* line : {"a1: &a1 [*a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0]\n",
                           "a2: &a2 [*a1, *a1, *a1, *a1, *a1, *a1, *a1, *a1, *a1, *a1]\n",
                           "a3: &a3 [*a2, *a2, *a2, *a2, *a2, *a2, *a2, *a2, *a2, *a2]\n",
                           "a4: &a4 [*a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3]\n",
                           "a5: [*a4, *a4, *a4, *a4, *a4, *a4, *a4, *a4, *a4, *a4]\n"}) {
    laughs += line;
  }
  for (const std::string& text :
       {laughs, "a: " + std::string(5000, '['), std::string("? [a]\n: b\n"),
        std::string("a: &a [*a]\n"), std::string("a: {<<: 3}\n"), std::string(","),
        std::string("a: {<<: &b [*b]}\n")}) {
    EXPECT_FALSE(parse_documents(text).problems.empty()) << text.substr(0, 40);
  }
}

TEST(DocumentTest, AnyBytesAreReadWithoutThrowing) {
  uint64_t state = 42;
  const std::string alphabet = "ab: -[]{}\"'\n\t&*!|>%@#,?<0.1\\\x80\xff";
  for (int round = 0; round < 1000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      text += alphabet[(state >> 33) % alphabet.size()];
    }
    EXPECT_NO_THROW({ const ParsedText ignored = parse_documents(text); }) << text;
  }
}

TEST(DocumentTest, PathsQuoteKeysThatAreNoIdentifiers) {
  EXPECT_EQ(child_path("", "a"), "a");
  EXPECT_EQ(child_path("a", "b-c"), "a.b-c");
  EXPECT_EQ(child_path("a", "nvidia.com/gpu"), "a[nvidia.com/gpu]");
  EXPECT_EQ(item_path("a", 3), "a[3]");
  EXPECT_TRUE(is_within("a.b", "a"));
  EXPECT_TRUE(is_within("a[1]", "a"));
  EXPECT_TRUE(is_within("a", "a"));
  EXPECT_FALSE(is_within("ab", "a"));
}

}  // namespace
}  // namespace lockstep::common
