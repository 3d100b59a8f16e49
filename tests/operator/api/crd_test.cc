#include "operator/api/crd.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "operator/api/job_fields.h"
#include "runtime/common/document.h"
#include "runtime/common/schema.h"
#include "tests/support/paths.h"

namespace lockstep::api {
namespace {

using nlohmann::json;

const json& version() {
  static const json object = crd();
  return object["spec"]["versions"][0];
}

// Fills in defaults the way an API server does, from the schema alone.
json default_like_server(const json& schema, json value) {
  if (schema.value("type", "") == "object" && value.is_object() && schema.contains("properties")) {
    for (const auto& [name, property] : schema["properties"].items()) {
      if (!value.contains(name) && property.contains("default")) {
        value[name] = property["default"];
      }
      if (value.contains(name)) value[name] = default_like_server(property, value[name]);
    }
  }
  if (schema.value("type", "") == "array" && value.is_array()) {
    for (json& item : value) item = default_like_server(schema["items"], item);
  }
  return value;
}

// Calls `visit(path, schema)` for `schema` and everything in it.
template <typename Visit>
void walk(const std::string& path, const json& schema, const Visit& visit) {
  visit(path, schema);
  if (schema.contains("properties")) {
    for (const auto& [name, property] : schema["properties"].items()) {
      walk(path + "." + name, property, visit);
    }
  }
  if (schema.contains("items")) walk(path + "[]", schema["items"], visit);
  if (schema.contains("additionalProperties")) {
    walk(path + "{}", schema["additionalProperties"], visit);
  }
}

TEST(CrdTest, FileIsWhatTheTablePrints) {
  const std::string path = std::string(support::kSourceTree) + "/crds/trainingjobs.yaml";
  if (std::getenv("LOCKSTEP_UPDATE_FILES") != nullptr) std::ofstream(path) << crd_yaml();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_TRUE(text.str() == crd_yaml())
      << "crds/trainingjobs.yaml drifted from the table of fields: run this test once with "
         "LOCKSTEP_UPDATE_FILES=1 and look at `git diff crds/`";
}

TEST(CrdTest, YamlReadsBackAsTheSameObject) {
  const common::ParsedText parsed = common::parse_documents(crd_yaml());
  ASSERT_EQ(parsed.documents.size(), 1U);
  EXPECT_EQ(parsed.documents.front().value, crd());
}

TEST(CrdTest, YamlOfAnyValueReadsBack) {
  const json value = json::parse(R"({"a": [], "b": {}, "c": [[1, [2]], {"x": {"y": [{"z": 1}]}}],
      "yes": "no", "1": "1", "e": "", "n": null, "t": "true", "m": "a: b # c\n\"q\"", "f": 3e-4,
      "-": "- x", "u": "\u00e4", "d": {"k.l/m": ["on", "null", "~", "0x1"]}})");
  const common::ParsedText parsed = common::parse_documents(to_yaml(value));
  ASSERT_EQ(parsed.documents.size(), 1U) << to_yaml(value);
  EXPECT_EQ(parsed.documents.front().value, value) << to_yaml(value);
}

TEST(CrdTest, FitsClientSideApply) {
  EXPECT_LT(crd().dump().size(), 256U * 1024U);
}

TEST(CrdTest, EveryStringListAndMapIsBounded) {
  const auto check = [](const std::string& path, const json& schema) {
    const std::string type = schema.value("type", "");
    if (type == "string") {
      EXPECT_TRUE(schema.contains("maxLength") || schema.contains("enum")) << path;
    }
    if (type == "array") {
      EXPECT_TRUE(schema.contains("maxItems")) << path;
    }
    if (schema.contains("additionalProperties")) {
      EXPECT_TRUE(schema.contains("maxProperties")) << path;
    }
    if (!path.ends_with("]") && !path.ends_with("}")) {
      EXPECT_FALSE(schema.value("description", "").empty()) << path;
    }
  };
  const json& root = version()["schema"]["openAPIV3Schema"];
  walk("spec", root["properties"]["spec"], check);
  walk("status", root["properties"]["status"], check);
}

TEST(CrdTest, OurDefaultsAreTheSchemasDefaults) {
  const json spec = json::parse(R"({"ranks": 2, "train": {
      "model": {"config": {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                           "num_hidden_layers": 2, "num_attention_heads": 4}},
      "data": {"train": "corpus", "sequenceLength": 32},
      "batch": {"globalBatchSize": 8}, "steps": 100}})");
  const json& schema = version()["schema"]["openAPIV3Schema"]["properties"]["spec"];
  const common::Checked checked = common::check_and_default(spec_fields(), spec, "spec");
  EXPECT_TRUE(checked.problems.empty());
  EXPECT_EQ(checked.value, default_like_server(schema, spec));
}

TEST(CrdTest, ColumnsAndSubresourcesAreThoseOfTheDesign) {
  std::vector<std::string> names, wide;
  for (const json& column : version()["additionalPrinterColumns"]) {
    (column.value("priority", 0) == 0 ? names : wide).push_back(column["name"]);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"State", "Step", "Loss", "Tok/s", "ETA", "Restarts", "Age"}));
  EXPECT_EQ(wide, (std::vector<std::string>{"Ranks", "Strategy", "Last-Ckpt", "Message"}));
  EXPECT_EQ(version()["subresources"]["scale"]["specReplicasPath"], ".spec.ranks");
  EXPECT_TRUE(version()["subresources"].contains("status"));
  EXPECT_EQ(crd()["spec"]["names"]["shortNames"], json({"tjob"}));
  EXPECT_EQ(crd()["spec"]["names"]["categories"], json({"all"}));
}

TEST(CrdTest, EveryFieldButRanksSuspendAndTemplateIsImmutableWhileRunning) {
  const json& spec = version()["schema"]["openAPIV3Schema"]["properties"]["spec"];
  std::vector<std::string> guarded;
  for (const json& rule : spec["x-kubernetes-validations"]) {
    const std::string text = rule["rule"];
    if (text.starts_with("oldSelf.suspend || ")) {
      guarded.push_back(rule["fieldPath"].get<std::string>().substr(1));
    }
  }
  for (const auto& [name, ignored] : spec["properties"].items()) {
    const bool may_change = name == "ranks" || name == "suspend" || name == "template";
    EXPECT_EQ(std::count(guarded.begin(), guarded.end(), name), may_change ? 0 : 1) << name;
  }
}

}  // namespace
}  // namespace lockstep::api
