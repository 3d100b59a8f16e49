#include "runtime/common/schema.h"

#include <algorithm>

#include <regex.h>

#include "runtime/common/suggest.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

// A check in progress: problems gather, lines come from `source`.
struct Check {
  const Document* source;
  Problems problems;

  void report(const std::string& path, std::string message, std::string hint = "") {
    problems.push_back({.path = path,
                        .line = source != nullptr ? source->line_of(path) : 0,
                        .message = std::move(message),
                        .hint = std::move(hint)});
  }
};

// What was found, short enough for one line.
std::string describe(const json& value) {
  constexpr size_t kLongest = 60;
  if (value.is_object()) return "a map";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return value.is_string() ? std::string("string ").append(text) : text;
}

std::string number_text(double value) {
  return json(value).dump();
}

std::string bound_text(double value, bool integral) {
  return integral ? std::to_string(static_cast<int64_t>(value)) : number_text(value);
}

int64_t num_characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // not a UTF-8 continuation byte
  });
}

const char* type_words(FieldType type) {
  switch (type) {
    case FieldType::kString:
      return "a string";
    case FieldType::kInteger:
      return "an integer";
    case FieldType::kNumber:
      return "a number";
    case FieldType::kBoolean:
      return "true or false";
    case FieldType::kObject:
    case FieldType::kMap:
    case FieldType::kFree:
      return "a map";
    case FieldType::kList:
      return "a list";
    case FieldType::kQuantity:
      return "a quantity such as 8, \"500m\" or \"64Gi\"";
  }
  return "a value";
}

bool has_type(const json& value, FieldType type) {
  switch (type) {
    case FieldType::kString:
      return value.is_string();
    case FieldType::kInteger:
      return value.is_number_integer();
    case FieldType::kNumber:
      return value.is_number();
    case FieldType::kBoolean:
      return value.is_boolean();
    case FieldType::kObject:
    case FieldType::kMap:
    case FieldType::kFree:
      return value.is_object();
    case FieldType::kList:
      return value.is_array();
    case FieldType::kQuantity:
      return value.is_string() || value.is_number_integer();
  }
  return false;
}

std::string type_hint(const json& value, FieldType type) {
  if (type == FieldType::kString) return "put the value in quotes";
  if (type == FieldType::kQuantity) return "put the value in quotes";
  if (type == FieldType::kInteger && value.is_number()) return "write it without a fraction";
  if (value.is_string()) {
    const bool wants_number = type == FieldType::kInteger || type == FieldType::kNumber;
    const ParsedText unquoted = parse_documents(value.get<std::string>());
    if (wants_number && unquoted.documents.size() == 1 &&
        has_type(unquoted.documents.front().value, type)) {
      return "remove the quotes";
    }
  }
  return "";
}

void check_bounds(const Field& field, const json& value, const std::string& path, Check& check) {
  const double number = value.get<double>();
  const bool integral = field.type == FieldType::kInteger;
  if (field.minimum &&
      (field.exclusive_minimum ? number <= *field.minimum : number < *field.minimum)) {
    check.report(path, std::string("must be ")
                           .append(field.exclusive_minimum ? "greater than " : "at least ")
                           .append(bound_text(*field.minimum, integral))
                           .append(", found ")
                           .append(value.dump()));
  }
  if (field.maximum &&
      (field.exclusive_maximum ? number >= *field.maximum : number > *field.maximum)) {
    check.report(path, std::string("must be ")
                           .append(field.exclusive_maximum ? "less than " : "at most ")
                           .append(bound_text(*field.maximum, integral))
                           .append(", found ")
                           .append(value.dump()));
  }
}

void check_string(const Field& field, const std::string& text, const std::string& path,
                  Check& check) {
  const int64_t length = num_characters(text);
  if (length < field.min_length) {
    check.report(path, text.empty() ? "must not be empty" : "is too short");
  } else if (length > field.max_length) {
    check.report(path, std::string("must have at most ")
                           .append(std::to_string(field.max_length))
                           .append(" characters, found ")
                           .append(std::to_string(length)));
  } else if (!field.pattern.empty() && !matches(text, field.pattern)) {
    check.report(
        path, std::string("must be ")
                  .append(field.pattern_hint.empty() ? "as " + field.pattern : field.pattern_hint)
                  .append(", found ")
                  .append(describe(text)));
  }
}

std::vector<std::string> choice_words(const Field& field) {
  std::vector<std::string> words;
  words.reserve(field.choices.size());
  for (const json& choice : field.choices) {
    words.push_back(choice.is_string() ? choice.get<std::string>() : choice.dump());
  }
  return words;
}

void check_choice(const Field& field, const json& value, const std::string& path, Check& check) {
  if (field.choices.empty() ||
      std::find(field.choices.begin(), field.choices.end(), value) != field.choices.end()) {
    return;
  }
  const std::vector<std::string> words = choice_words(field);
  const std::string found = value.is_string() ? value.get<std::string>() : value.dump();
  const std::string use = (words.size() == 1 ? "use " : "use one of ") + join(words);
  if (std::find(field.planned.begin(), field.planned.end(), found) != field.planned.end()) {
    check.report(path, describe(value) + " is not supported by this version", use);
    return;
  }
  const std::optional<std::string> near = closest(found, words);
  check.report(path,
               std::string(words.size() == 1 ? "must be " : "must be one of ")
                   .append(join(words))
                   .append(", found ")
                   .append(describe(value)),
               near && words.size() > 1 ? "did you mean \"" + *near + "\"?" : "");
}

// A hint for a missing field: what it is for.
std::string first_sentence(const std::string& doc) {
  std::string sentence = doc.substr(0, doc.find(". "));
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

json walk(const Field& field, const json& value, const std::string& path, Check& check);

json walk_object(const Field& field, const json& object, const std::string& path, Check& check) {
  json result = json::object();
  for (const auto& [key, value] : object.items()) {
    if (find_child(field, key) != nullptr) continue;
    Problem problem = unknown_key(field, key, child_path(path, key));
    check.report(problem.path, problem.message, problem.hint);
    result[key] = value;
  }
  for (const Field& child : field.children) {
    const std::string at = child_path(path, child.name);
    const auto found = object.find(child.name);
    if (found != object.end() && !found->is_null()) {
      result[child.name] = walk(child, *found, at, check);
    } else if (found != object.end() && child.nullable) {
      result[child.name] = nullptr;
    } else if (!child.default_value.is_null()) {
      result[child.name] = walk(child, child.default_value, at, check);
    } else if (child.required) {
      check.report(at, "is required", first_sentence(child.doc));
    }
  }
  return result;
}

void check_unique_keys(const Field& field, const json& list, const std::string& path,
                       Check& check) {
  std::vector<json> seen;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object() || !list[i].contains(field.list_key)) continue;
    const json& key = list[i][field.list_key];
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      check.report(child_path(item_path(path, i), field.list_key),
                   describe(key) + " appears twice in the list");
    }
    seen.push_back(key);
  }
}

void check_size(const Field& field, size_t size, const std::string& path, Check& check) {
  const auto found = static_cast<int64_t>(size);
  if (found >= field.min_items && found <= field.max_items) return;
  const std::string wanted = field.min_items == field.max_items ? std::to_string(field.max_items)
                             : found < field.min_items
                                 ? "at least " + std::to_string(field.min_items)
                                 : "at most " + std::to_string(field.max_items);
  check.report(path, std::string("must have ")
                         .append(wanted)
                         .append(" entries, found ")
                         .append(std::to_string(found)));
}

json walk_list(const Field& field, const json& list, const std::string& path, Check& check) {
  check_size(field, list.size(), path, check);
  json result = json::array();
  for (const json& item : list) {
    result.push_back(walk(field.element.front(), item, item_path(path, result.size()), check));
  }
  if (!field.list_key.empty()) check_unique_keys(field, result, path, check);
  return result;
}

json walk_map(const Field& field, const json& map, const std::string& path, Check& check) {
  check_size(field, map.size(), path, check);
  json result = json::object();
  for (const auto& [key, value] : map.items()) {
    if (value.is_null()) continue;
    result[key] = walk(field.element.front(), value, child_path(path, key), check);
  }
  return result;
}

json walk_quantity(const json& value, const std::string& path, Check& check) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (text.size() > kMaxQuantityLength || !matches(text, kQuantityPattern)) {
      check.report(path, std::string("must be ")
                             .append(type_words(FieldType::kQuantity))
                             .append(", found ")
                             .append(describe(value)));
    }
  }
  return value;
}

json walk(const Field& field, const json& value, const std::string& path, Check& check) {
  if (!has_type(value, field.type)) {
    check.report(path,
                 std::string("must be ")
                     .append(type_words(field.type))
                     .append(", found ")
                     .append(describe(value)),
                 type_hint(value, field.type));
    return value;
  }
  switch (field.type) {
    case FieldType::kObject:
      return walk_object(field, value, path, check);
    case FieldType::kList:
      return walk_list(field, value, path, check);
    case FieldType::kMap:
      return walk_map(field, value, path, check);
    case FieldType::kFree:
      return value;
    case FieldType::kQuantity:
      return walk_quantity(value, path, check);
    case FieldType::kInteger:
    case FieldType::kNumber:
      check_bounds(field, value, path, check);
      check_choice(field, value, path, check);
      // 1 and 1.0 are the same number: one form, so that normalised texts compare.
      return field.type == FieldType::kNumber ? json(value.get<double>()) : value;
    case FieldType::kString:
      check_string(field, value.get_ref<const std::string&>(), path, check);
      check_choice(field, value, path, check);
      return value;
    case FieldType::kBoolean:
      check_choice(field, value, path, check);
      return value;
  }
  return value;
}

}  // namespace

Checked check_and_default(const Field& field, const json& value, const std::string& path,
                          const Document* source) {
  Check check{.source = source, .problems = {}};
  json result = walk(field, value.is_null() ? json::object() : value, path, check);
  std::stable_sort(check.problems.begin(), check.problems.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  return {.value = std::move(result), .problems = std::move(check.problems)};
}

Problem unknown_key(const Field& object, const std::string& key, const std::string& path) {
  if (std::find(object.planned.begin(), object.planned.end(), key) != object.planned.end()) {
    return {.path = path, .message = "is not supported by this version", .hint = "remove it"};
  }
  std::vector<std::string> known;
  known.reserve(object.children.size());
  for (const Field& child : object.children) known.push_back(child.name);
  std::string hint;
  if (const std::optional<std::string> near = closest(key, known)) {
    hint.append("did you mean \"").append(*near).append("\"? ");
  }
  return {.path = path, .message = "unknown field", .hint = hint + "known fields: " + join(known)};
}

bool matches(const std::string& text, const std::string& pattern) {
  if (text.find('\0') != std::string::npos) return false;  // regexec() would stop there
  regex_t compiled;
  if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return false;
  const bool found = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return found;
}

const Field* find_child(const Field& object, const std::string& name) {
  const auto found = std::find_if(object.children.begin(), object.children.end(),
                                  [&](const Field& child) { return child.name == name; });
  return found == object.children.end() ? nullptr : &*found;
}

}  // namespace lockstep::common
