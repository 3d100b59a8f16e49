#include "runtime/common/schema.h"

#include <gtest/gtest.h>

#include "runtime/common/suggest.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

// A table with one field of every type.
Field sample() {
  return {.type = FieldType::kObject,
          .planned = {"later"},
          .children = {
              {.name = "name",
               .doc = "Who. More.",
               .required = true,
               .pattern = "^[a-z]+$",
               .max_length = 5},
              {.name = "count",
               .type = FieldType::kInteger,
               .default_value = 2,
               .minimum = 1,
               .maximum = 9},
              {.name = "ratio",
               .type = FieldType::kNumber,
               .minimum = 0,
               .maximum = 1,
               .exclusive_minimum = true,
               .exclusive_maximum = true},
              {.name = "on", .type = FieldType::kBoolean, .default_value = false},
              {.name = "mode",
               .default_value = "fast",
               .choices = {"fast", "slow"},
               .planned = {"warp"}},
              {.name = "inner",
               .type = FieldType::kObject,
               .default_value = json::object(),
               .children = {{.name = "depth", .type = FieldType::kInteger, .default_value = 1}}},
              {.name = "items",
               .type = FieldType::kList,
               .max_items = 2,
               .element = {{.type = FieldType::kObject,
                            .children = {{.name = "id", .required = true}}}},
               .list_key = "id"},
              {.name = "limits",
               .type = FieldType::kMap,
               .max_items = 2,
               .element = {{.type = FieldType::kQuantity}}},
          }};
}

Checked check(const std::string& yaml) {
  const ParsedText parsed = parse_documents(yaml);
  EXPECT_TRUE(parsed.problems.empty()) << yaml;
  const Document& document = parsed.documents.front();
  return check_and_default(sample(), document.value, "", &document);
}

TEST(SchemaTest, EveryMistakeIsNamedWithPathLineAndHint) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"count: 2", "f: name: is required (Who)"},
      {"name: a\nCuont: 2",
       "f:2: Cuont: unknown field (did you mean \"count\"? known fields: name, count, ratio, on, "
       "mode, inner, items, limits)"},
      {"name: a\nlater: 1", "f:2: later: is not supported by this version (remove it)"},
      {"name: a\ncount: 0", "f:2: count: must be at least 1, found 0"},
      {"name: a\ncount: 10", "f:2: count: must be at most 9, found 10"},
      {"name: a\ncount: 2.5",
       "f:2: count: must be an integer, found 2.5 (write it without a fraction)"},
      {"name: a\ncount: \"2\"",
       "f:2: count: must be an integer, found string \"2\" (remove the quotes)"},
      {"name: a\ncount: two", "f:2: count: must be an integer, found string \"two\""},
      {"name: a\nratio: 0", "f:2: ratio: must be greater than 0.0, found 0"},
      {"name: a\nratio: 1.0", "f:2: ratio: must be less than 1.0, found 1.0"},
      {"name: a\non: yes", "f:2: on: must be true or false, found string \"yes\""},
      {"name: a\nmode: fats",
       "f:2: mode: must be one of fast, slow, found string \"fats\" (did you mean \"fast\"?)"},
      {"name: a\nmode: warp",
       "f:2: mode: string \"warp\" is not supported by this version (use one of fast, slow)"},
      {"name: 7", "f:1: name: must be a string, found 7 (put the value in quotes)"},
      {"name: toolong", "f:1: name: must have at most 5 characters, found 7"},
      {"name: A", "f:1: name: must be as ^[a-z]+$, found string \"A\""},
      {"name: a\ninner: 3", "f:2: inner: must be a map, found 3"},
      {"name: a\ninner: {dept: 3}",
       "f:2: inner.dept: unknown field (did you mean \"depth\"? known fields: depth)"},
      {"name: a\nitems:\n- {}", "f:3: items[0].id: is required"},
      {"name: a\nitems:\n- id: x\n- id: x",
       "f:4: items[1].id: string \"x\" appears twice in the list"},
      {"name: a\nitems: [{id: a}, {id: b}, {id: c}]",
       "f:2: items: must have at most 2 entries, found 3"},
      {"name: a\nitems: {id: a}", "f:2: items: must be a list, found a map"},
      {"name: a\nlimits:\n  cpu: 0.5",
       "f:3: limits.cpu: must be a quantity such as 8, \"500m\" or \"64Gi\", found 0.5 (put the "
       "value in quotes)"},
      {"name: a\nlimits: {x/y: 4 GB}",
       "f:2: limits[x/y]: must be a quantity such as 8, \"500m\" or \"64Gi\", found string \"4 "
       "GB\""},
  };
  for (const auto& [yaml, expected] : table) {
    const Checked checked = check(yaml);
    ASSERT_EQ(checked.problems.size(), 1U) << yaml;
    EXPECT_EQ(to_string(checked.problems[0], "f"), expected);
  }
}

TEST(SchemaTest, AllMistakesAreReportedAtOnceInOrderOfLines) {
  const Checked checked = check("mode: warp\ncount: 0\ninner:\n  depth: x\n");
  ASSERT_EQ(checked.problems.size(), 4U);
  EXPECT_EQ(checked.problems[0].path, "name");
  EXPECT_EQ(checked.problems[1].path, "mode");
  EXPECT_EQ(checked.problems[2].path, "count");
  EXPECT_EQ(checked.problems[3].path, "inner.depth");
  EXPECT_EQ(checked.problems[3].line, 4);
}

TEST(SchemaTest, DefaultsAreFilledInAlsoInsideAbsentObjects) {
  const Checked checked = check("name: a\nratio: null\nmode: ~");
  EXPECT_TRUE(checked.problems.empty());
  EXPECT_EQ(checked.value, json::parse(R"({"name":"a","count":2,"on":false,"mode":"fast",
                                           "inner":{"depth":1}})"));
}

TEST(SchemaTest, NullIsKeptWhereAFieldIsNullable) {
  const Field field{
      .type = FieldType::kObject,
      .children = {
          {.name = "cap", .type = FieldType::kNumber, .nullable = true},
          {.name = "width", .type = FieldType::kInteger, .default_value = 3, .nullable = true},
          {.name = "ratio", .type = FieldType::kNumber}}};
  const json nulls = {{"cap", nullptr}, {"width", nullptr}, {"ratio", nullptr}};
  const Checked checked = check_and_default(field, nulls, "");
  EXPECT_TRUE(checked.problems.empty());
  EXPECT_EQ(checked.value, json::parse(R"({"cap": null, "width": null})"));
  EXPECT_EQ(check_and_default(field, checked.value, "").value, checked.value);
  EXPECT_EQ(check_and_default(field, json::object(), "").value, json::parse(R"({"width": 3})"));
  const json properties = openapi_schema(field).at("properties");
  EXPECT_EQ(properties.at("cap").at("nullable"), true);
  EXPECT_FALSE(properties.at("ratio").contains("nullable"));
}

TEST(SchemaTest, CheckingTheResultAgainChangesNothing) {
  for (const char* yaml : {"name: a", "count: x\nunknown: [1]\ninner: 5",
                           "name: a\nratio: 0.5\nitems: [{id: x}, 3]\nlimits: {cpu: 1, m: 1Gi}"}) {
    const json once = check(yaml).value;
    EXPECT_EQ(check_and_default(sample(), once, "").value.dump(), once.dump()) << yaml;
  }
}

TEST(SchemaTest, OpenApiSchemaHoldsTypesBoundsAndDefaults) {
  const json schema = openapi_schema(sample());
  const json& properties = schema["properties"];
  EXPECT_EQ(schema["required"], json({"name"}));
  EXPECT_EQ(properties["name"], json::parse(R"({"type":"string","description":"Who. More.",
      "maxLength":5,"pattern":"^[a-z]+$"})"));
  EXPECT_EQ(properties["count"], json::parse(R"({"type":"integer","format":"int64","default":2,
      "minimum":1,"maximum":9})"));
  EXPECT_EQ(properties["ratio"], json::parse(R"({"type":"number","minimum":0.0,"maximum":1.0,
      "exclusiveMinimum":true,"exclusiveMaximum":true})"));
  EXPECT_EQ(properties["mode"],
            json::parse(R"({"type":"string","default":"fast","enum":["fast","slow"]})"));
  EXPECT_EQ(properties["inner"]["default"], json::object());
  EXPECT_EQ(properties["items"]["x-kubernetes-list-map-keys"], json({"id"}));
  EXPECT_EQ(properties["items"]["maxItems"], 2);
  EXPECT_EQ(properties["limits"]["maxProperties"], 2);
  EXPECT_EQ(properties["limits"]["additionalProperties"]["x-kubernetes-int-or-string"], true);
}

TEST(SchemaTest, MarkdownReferenceHasARowPerField) {
  const std::string text = markdown_reference(sample(), "spec");
  EXPECT_NE(text.find("| `spec.name` | string | required | Who. More. |"), std::string::npos);
  EXPECT_NE(text.find("| `spec.mode` | fast \\| slow | `\"fast\"` |"), std::string::npos);
  EXPECT_NE(text.find("| `spec.inner.depth` | integer | `1` |"), std::string::npos);
  EXPECT_NE(text.find("| `spec.items[].id` | string | required |"), std::string::npos);
}

TEST(SuggestTest, NearNamesAreFoundAndFarOnesAreNot) {
  const std::vector<std::string> names = {"steps", "globalBatchSize", "hidden_size", "lr"};
  EXPECT_EQ(closest("setps", names), "steps");
  EXPECT_EQ(closest("step", names), "steps");
  EXPECT_EQ(closest("global_batch_size", names), "globalBatchSize");
  EXPECT_EQ(closest("hiddenSize", names), "hidden_size");
  EXPECT_EQ(closest("banana", names), std::nullopt);
  EXPECT_EQ(closest(std::string(10000, 's'), names), std::nullopt);
}

}  // namespace
}  // namespace lockstep::common
