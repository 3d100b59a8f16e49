#include "operator/api/editor_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/job_fields.h"

namespace lockstep::api {
namespace {

using nlohmann::json;

// Everything in the schema that is a schema, by path.
void walk(const json& schema, const std::string& path,
          const std::function<void(const json&, const std::string&)>& visit) {
  visit(schema, path);
  const json properties = schema.value("properties", json::object());
  for (const auto& [name, child] : properties.items()) {
    walk(child, path + "." + name, visit);
  }
  for (const char* part : {"items", "additionalProperties"}) {
    if (schema.contains(part) && schema[part].is_object()) {
      walk(schema[part], path + "." + part, visit);
    }
  }
}

TEST(EditorSchemaTest, HoldsNothingThatOnlyKubernetesReads) {
  int num_schemas = 0;
  walk(editor_schema(), "", [&num_schemas](const json& schema, const std::string& path) {
    ++num_schemas;
    for (const auto& [key, value] : schema.items()) {
      EXPECT_FALSE(key.starts_with("x-kubernetes-")) << path;
      EXPECT_NE(key, "nullable") << path;
      EXPECT_TRUE(!key.starts_with("exclusive") || value.is_number()) << path;
    }
  });
  EXPECT_GT(num_schemas, 100);
}

TEST(EditorSchemaTest, RefusesKeysThatNobodyKnows) {
  walk(editor_schema()["properties"]["spec"], "spec",
       [](const json& schema, const std::string& path) {
         if (schema.contains("properties")) {
           EXPECT_EQ(schema["additionalProperties"], false) << path;
         }
       });
}

TEST(EditorSchemaTest, KnowsEveryFieldOfTheTable) {
  const json spec = editor_schema()["properties"]["spec"]["properties"];
  for (const common::Field& field : spec_fields().children) {
    EXPECT_TRUE(spec.contains(field.name)) << field.name;
  }
  const json& steps = spec["train"]["properties"]["steps"];
  EXPECT_EQ(steps["type"], "integer");
  EXPECT_FALSE(steps["description"].get<std::string>().empty());
  const json& beta = spec["train"]["properties"]["optimizer"]["properties"]["betas"]["items"];
  EXPECT_EQ(beta["exclusiveMaximum"], 1);
  EXPECT_FALSE(beta.contains("maximum"));
}

}  // namespace
}  // namespace lockstep::api
