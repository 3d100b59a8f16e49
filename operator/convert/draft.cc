#include "operator/convert/draft.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "operator/api/job_fields.h"
#include "runtime/common/schema.h"

namespace lockstep::convert {
namespace {

using common::Field;
using common::FieldType;
using nlohmann::json;

std::vector<std::string> steps_of(const std::string& path) {
  std::vector<std::string> steps;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    steps.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return steps;
}

bool is_type(const Field& field, const json& value) {
  switch (field.type) {
    case FieldType::kString:
      return value.is_string();
    case FieldType::kInteger:
    case FieldType::kNumber:
      return value.is_number();
    case FieldType::kBoolean:
      return value.is_boolean();
    case FieldType::kList:
      return value.is_array();
    case FieldType::kObject:
    case FieldType::kMap:
    case FieldType::kFree:
      return value.is_object();
    case FieldType::kQuantity:
      return value.is_string() || value.is_number();
  }
  return false;
}

std::string describe(const common::Problem& problem) {
  return problem.hint.empty() ? problem.message : problem.message + " (" + problem.hint + ")";
}

// Puts `value` below `spec`; objects on the way are made.
void put(json& spec, const std::string& field, const json& value) {
  json* at = &spec;
  for (const std::string& step : steps_of(field)) at = &(*at)[step];
  *at = value;
}

}  // namespace

Verdict mapped(std::string text) {
  return {.text = std::move(text)};
}

Verdict changed(std::string text) {
  return {.fate = Fate::kChanged, .text = std::move(text)};
}

Verdict refused(std::string text) {
  return {.fate = Fate::kRefused, .text = std::move(text)};
}

Verdict broken(std::string text) {
  return {.fate = Fate::kRefused, .text = std::move(text), .broken = true};
}

const json* find_path(const json& root, const std::string& path) {
  const json* at = &root;
  for (const std::string& step : steps_of(path)) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(step);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at->is_null() ? nullptr : at;
}

std::string text_at(const json& value, const std::string& key) {
  if (!value.is_object()) return "";
  const auto found = value.find(key);
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

Misfit misfit(const std::string& field, const json& value) {
  const Field* at = &api::spec_fields();
  std::string path = "spec";
  for (const std::string& step : steps_of(field)) {
    path += "." + step;
    if (at->type == FieldType::kMap) {
      at = &at->element.front();
      continue;
    }
    if (at->type == FieldType::kFree) return {};  // what is below is checked as a whole
    const Field* child = common::find_child(*at, step);
    if (child == nullptr) return {path + " " + common::unknown_key(*at, step, path).message};
    at = child;
  }
  if (!is_type(*at, value)) {
    return {"cannot be " + value.dump() + ": " + path + " is of another type", true};
  }
  common::Problems problems = common::check_and_default(*at, value, path).problems;
  if (problems.empty()) return {};
  return {problems.front().path + " " + describe(problems.front())};
}

Verdict Draft::map(const std::string& field, const json& value, std::string text) {
  if (const Misfit why = misfit(field, value); !why.text.empty()) {
    return why.wrong_type ? broken(why.text) : refused(why.text);
  }
  if (const json* found = find(field); found != nullptr && *found != value) {
    return refused("spec." + field + " is already " + found->dump() + ", by another key");
  }
  put(spec, field, value);
  return {.field = field, .text = std::move(text)};
}

Verdict Draft::change(const std::string& field, const json& value, std::string text) {
  Verdict verdict = map(field, value, std::move(text));
  if (verdict.fate == Fate::kMapped) verdict.fate = Fate::kChanged;
  return verdict;
}

Verdict Draft::assume(const std::string& field, const json& value, std::string text) {
  if (find(field) != nullptr) return mapped();
  if (const Misfit why = misfit(field, value); !why.text.empty()) return refused(why.text);
  put(spec, field, value);
  remarks.push_back({.field = field, .fill_in = false, .text = std::move(text)});
  return mapped();
}

void Draft::fill_in(const std::string& field, const json& value, std::string text) {
  if (find(field) != nullptr) return;
  put(spec, field, value);
  remarks.push_back({.field = field, .fill_in = true, .text = std::move(text)});
}

const json* Draft::find(const std::string& field) const {
  return find_path(spec, field);
}

const json* Draft::key(const std::string& path) const {
  return find_path(source, path);
}

std::optional<int64_t> Draft::count(const std::string& path) const {
  const json* found = key(path);
  return found == nullptr ? std::nullopt : whole(*found);
}

const json* Draft::number(const std::string& path) const {
  const json* found = key(path);
  return found != nullptr && found->is_number() ? found : nullptr;
}

std::string Draft::text(const std::string& path) const {
  const json* found = key(path);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

void move_into(Conversion& conversion, Draft draft) {
  conversion.spec = std::move(draft.spec);
  conversion.metadata = std::move(draft.metadata);
  conversion.remarks = std::move(draft.remarks);
}

bool is_auto(const json& value) {
  return value == "auto";
}

bool is_off(const json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value == 0;
  if (value.is_structured()) {
    return value.empty() ||
           (value.is_object() && value.contains("enabled") && value.at("enabled") == false);
  }
  static const std::vector<std::string> words = {"", "none", "None", "no", "NO", "off", "null"};
  return std::find(words.begin(), words.end(), value.get<std::string>()) != words.end();
}

std::optional<int64_t> whole(const json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double kLargest = 9007199254740992;  // doubles beyond are no longer counts
  const bool is_count = std::floor(number) == number && std::abs(number) <= kLargest;
  return is_count ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
}

}  // namespace lockstep::convert
