#include "operator/api/editor_schema.h"

#include <string>
#include <utility>

#include "operator/api/job_fields.h"
#include "operator/api/training_job.h"
#include "runtime/common/schema.h"

namespace lockstep::api {
namespace {

using nlohmann::json;

json to_editor(const json& openapi);

// OpenAPI 3.0 says `exclusiveMinimum: true` beside `minimum`; JSON Schema has one number.
void move_exclusive(json& schema, const char* bound, const char* exclusive) {
  if (!schema.contains(exclusive)) return;
  schema[exclusive] = schema[bound];
  schema.erase(bound);
}

void allow_null(json& schema) {
  if (!schema.contains("nullable")) return;
  schema.erase("nullable");
  if (schema.contains("type")) schema["type"] = json::array({schema["type"], "null"});
  if (schema.contains("enum")) schema["enum"].push_back(nullptr);
}

void convert_children(json& schema) {
  if (schema.contains("items")) schema["items"] = to_editor(schema["items"]);
  if (schema.contains("additionalProperties")) {
    schema["additionalProperties"] = to_editor(schema["additionalProperties"]);
  }
  if (!schema.contains("properties")) return;
  for (auto& [name, child] : schema["properties"].items()) child = to_editor(child);
  schema["additionalProperties"] = false;
}

json to_editor(const json& openapi) {
  json schema = json::object();
  for (const auto& [key, value] : openapi.items()) {
    if (!key.starts_with("x-kubernetes-") && key != "format") schema[key] = value;
  }
  move_exclusive(schema, "minimum", "exclusiveMinimum");
  move_exclusive(schema, "maximum", "exclusiveMaximum");
  allow_null(schema);
  convert_children(schema);
  return schema;
}

json metadata_schema() {
  const json texts = {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
  return {
      {"type", "object"},
      {"required", {"name"}},
      {"properties",
       {{"name", {{"type", "string"}, {"pattern", kNamePattern}, {"maxLength", kMaxNameLength}}},
        {"namespace", {{"type", "string"}}},
        {"labels", texts},
        {"annotations", texts}}}};
}

}  // namespace

json editor_schema() {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", kKind},
          {"type", "object"},
          {"required", {"apiVersion", "kind", "metadata", "spec"}},
          {"properties",
           {{"apiVersion", {{"const", std::string(kGroup) + "/" + kVersion}}},
            {"kind", {{"const", kKind}}},
            {"metadata", metadata_schema()},
            {"spec", to_editor(common::openapi_schema(spec_fields()))}}}};
}

}  // namespace lockstep::api
