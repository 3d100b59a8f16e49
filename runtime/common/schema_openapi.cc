#include "runtime/common/schema.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

json bound(double value, FieldType type) {
  return type == FieldType::kInteger ? json(static_cast<int64_t>(value)) : json(value);
}

void add_bounds(const Field& field, json& schema) {
  if (field.minimum) schema["minimum"] = bound(*field.minimum, field.type);
  if (field.maximum) schema["maximum"] = bound(*field.maximum, field.type);
  if (field.minimum && field.exclusive_minimum) schema["exclusiveMinimum"] = true;
  if (field.maximum && field.exclusive_maximum) schema["exclusiveMaximum"] = true;
}

void add_object(const Field& field, json& schema) {
  schema["type"] = "object";
  json properties = json::object();
  json required = json::array();
  for (const Field& child : field.children) {
    properties[child.name] = openapi_schema(child);
    if (child.required && child.default_value.is_null()) required.push_back(child.name);
  }
  schema["properties"] = std::move(properties);
  if (!required.empty()) schema["required"] = std::move(required);
}

void add_list(const Field& field, json& schema) {
  schema["type"] = "array";
  schema["items"] = openapi_schema(field.element.front());
  schema["maxItems"] = field.max_items;
  if (field.min_items > 0) schema["minItems"] = field.min_items;
  if (!field.list_key.empty()) {
    schema["x-kubernetes-list-type"] = "map";
    schema["x-kubernetes-list-map-keys"] = {field.list_key};
  } else {
    schema["x-kubernetes-list-type"] = "atomic";
  }
}

void add_string(const Field& field, json& schema) {
  schema["type"] = "string";
  // An enum bounds the length by itself.
  if (field.choices.empty()) schema["maxLength"] = field.max_length;
  if (field.min_length > 0) schema["minLength"] = field.min_length;
  if (!field.pattern.empty()) schema["pattern"] = field.pattern;
}

void add_type(const Field& field, json& schema) {
  switch (field.type) {
    case FieldType::kString:
      return add_string(field, schema);
    case FieldType::kInteger:
      schema["type"] = "integer";
      schema["format"] = "int64";
      return add_bounds(field, schema);
    case FieldType::kNumber:
      schema["type"] = "number";
      return add_bounds(field, schema);
    case FieldType::kBoolean:
      schema["type"] = "boolean";
      return;
    case FieldType::kObject:
      return add_object(field, schema);
    case FieldType::kList:
      return add_list(field, schema);
    case FieldType::kMap:
      schema["type"] = "object";
      schema["additionalProperties"] = openapi_schema(field.element.front());
      schema["maxProperties"] = field.max_items;
      return;
    case FieldType::kFree:
      schema["type"] = "object";
      schema["x-kubernetes-preserve-unknown-fields"] = true;
      return;
    case FieldType::kQuantity:
      schema["x-kubernetes-int-or-string"] = true;
      schema["anyOf"] = {{{"type", "integer"}}, {{"type", "string"}}};
      schema["maxLength"] = kMaxQuantityLength;
      schema["pattern"] = kQuantityPattern;
      return;
  }
}

}  // namespace

json openapi_schema(const Field& field) {
  json schema = json::object();
  add_type(field, schema);
  if (!field.doc.empty()) schema["description"] = field.doc;
  if (!field.default_value.is_null()) schema["default"] = field.default_value;
  if (!field.choices.empty()) schema["enum"] = field.choices;
  if (field.nullable) schema["nullable"] = true;
  for (const CelRule& rule : field.rules) {
    json entry = {{"rule", rule.rule}, {"message", rule.message}};
    if (!rule.field_path.empty()) entry["fieldPath"] = rule.field_path;
    schema["x-kubernetes-validations"].push_back(std::move(entry));
  }
  return schema;
}

}  // namespace lockstep::common
