#include "runtime/common/schema.h"
#include "runtime/common/suggest.h"

namespace lockstep::common {
namespace {

std::string type_column(const Field& field) {
  if (!field.choices.empty()) {
    std::vector<std::string> words;
    words.reserve(field.choices.size());
    for (const nlohmann::json& choice : field.choices) {
      words.push_back(choice.is_string() ? choice.get<std::string>() : choice.dump());
    }
    return join(words, " \\| ");
  }
  switch (field.type) {
    case FieldType::kString:
      return "string";
    case FieldType::kInteger:
      return "integer";
    case FieldType::kNumber:
      return "number";
    case FieldType::kBoolean:
      return "boolean";
    case FieldType::kObject:
      return "object";
    case FieldType::kList:
      return "list of " + type_column(field.element.front());
    case FieldType::kMap:
      return "map of " + type_column(field.element.front());
    case FieldType::kFree:
      return "map";
    case FieldType::kQuantity:
      return "quantity";
  }
  return "";
}

std::string default_column(const Field& field) {
  if (field.required && field.default_value.is_null()) return "required";
  if (field.default_value.is_null() || field.type == FieldType::kObject) return "";
  std::string text = "`";
  return text.append(field.default_value.dump()).append("`");
}

void add_rows(const Field& field, const std::string& path, std::string& out) {
  for (const Field& child : field.children) {
    const bool is_list = child.type == FieldType::kList;
    const std::string at = child_path(path, child.name) + (is_list ? "[]" : "");
    out.append("| `").append(at).append("` | ").append(type_column(child)).append(" | ");
    out.append(default_column(child)).append(" | ").append(child.doc).append(" |\n");
    add_rows(is_list ? child.element.front() : child, at, out);
  }
}

}  // namespace

std::string markdown_reference(const Field& field, const std::string& path) {
  std::string out = "| Field | Type | Default | Meaning |\n| --- | --- | --- | --- |\n";
  add_rows(field, path, out);
  return out;
}

}  // namespace lockstep::common
