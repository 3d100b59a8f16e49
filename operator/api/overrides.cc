#include "operator/api/overrides.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "operator/api/job_fields.h"
#include "runtime/common/document.h"
#include "runtime/common/schema.h"

namespace lockstep::api {
namespace {

using common::Field;
using common::FieldType;
using common::Problem;
using common::Problems;
using nlohmann::json;

// The steps of a path: "inputs[0].name" -> inputs, 0, name. Nothing if it is malformed.
std::optional<std::vector<std::string>> split_path(std::string_view path) {
  std::vector<std::string> steps;
  while (!path.empty()) {
    if (path.front() == '[') {
      const size_t close = path.find(']');
      if (close == std::string_view::npos || close == 1 || steps.empty()) return std::nullopt;
      steps.emplace_back(path.substr(1, close - 1));
      path.remove_prefix(close + 1);
      if (path.empty() || path.front() == '[') continue;
      if (path.front() != '.') return std::nullopt;
      path.remove_prefix(1);
    }
    const size_t end = std::min(path.find_first_of(".["), path.size());
    if (end == 0) return std::nullopt;
    steps.emplace_back(path.substr(0, end));
    const bool more = end < path.size() && path[end] == '.';
    path.remove_prefix(more ? end + 1 : end);
    if (more && path.empty()) return std::nullopt;
  }
  return steps.empty() ? std::nullopt : std::optional(steps);
}

std::optional<size_t> index_of(const std::string& step) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  const bool whole = error == std::errc() && end == step.data() + step.size();
  return whole ? std::optional(index) : std::nullopt;
}

// Walks `steps` through the table and through `spec`, creating what lacks on the way.
struct Walk {
  const Field* field;
  json* value;
  std::string path;
};

// Takes one step; a problem if the table or the list does not have it.
std::optional<Problem> take(const std::string& step, Walk& walk) {
  const auto refuse = [&](const std::string& path, std::string message, std::string hint = "") {
    return Problem{.path = path, .message = std::move(message), .hint = std::move(hint)};
  };
  switch (walk.field->type) {
    case FieldType::kObject:
    case FieldType::kMap: {
      const std::string at = common::child_path(walk.path, step);
      const bool is_map = walk.field->type == FieldType::kMap;
      const Field* child = is_map ? &walk.field->element.front() : find_child(*walk.field, step);
      if (child == nullptr) return common::unknown_key(*walk.field, step, at);
      if (!walk.value->is_object()) *walk.value = json::object();
      walk = {.field = child, .value = &(*walk.value)[step], .path = at};
      return std::nullopt;
    }
    case FieldType::kList: {
      const std::optional<size_t> index = index_of(step);
      if (!index) return refuse(walk.path, "is a list: give the number of an item, as in [0]");
      if (!walk.value->is_array()) *walk.value = json::array();
      const std::string at = common::item_path(walk.path, *index);
      if (*index > walk.value->size()) {
        return refuse(at, "the list has only " + std::to_string(walk.value->size()) + " items");
      }
      if (*index == walk.value->size()) walk.value->push_back(nullptr);
      walk = {.field = &walk.field->element.front(), .value = &(*walk.value)[*index], .path = at};
      return std::nullopt;
    }
    case FieldType::kFree: {  // no table to walk through: what is below is as free
      const std::optional<size_t> index = index_of(step);
      if (walk.value->is_array() && index && *index < walk.value->size()) {
        walk.value = &(*walk.value)[*index];
        walk.path = common::item_path(walk.path, *index);
        return std::nullopt;
      }
      walk.path = common::child_path(walk.path, step);
      if (walk.value->is_array()) return refuse(walk.path, "the list has no such item");
      if (!walk.value->is_object()) *walk.value = json::object();
      walk.value = &(*walk.value)[step];
      return std::nullopt;
    }
    default:
      return refuse(common::child_path(walk.path, step), "unknown field",
                    walk.path + " has no fields");
  }
}

std::optional<Problem> apply(const std::string& set, json& spec, std::vector<std::string>& paths) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos) {
    return Problem{.message = "--set " + set + ": has no '='", .hint = "write --set path=value"};
  }
  const std::optional<std::vector<std::string>> steps =
      split_path(std::string_view(set).substr(0, equals));
  if (!steps) {
    return Problem{.message = "--set " + set + ": the path is malformed",
                   .hint = "as in train.optimizer.lr or inputs[0].name"};
  }
  const common::ParsedText parsed = common::parse_documents(set.substr(equals + 1));
  if (!parsed.problems.empty() || parsed.documents.size() > 1) {
    return Problem{.message = "--set " + set + ": the value is not valid YAML"};
  }
  json changed = spec;
  Walk walk{.field = &spec_fields(), .value = &changed, .path = "spec"};
  for (const std::string& step : *steps) {
    if (std::optional<Problem> problem = take(step, walk)) return problem;
  }
  *walk.value = parsed.documents.empty() ? json() : parsed.documents.front().value;
  spec = std::move(changed);
  paths.push_back(walk.path);
  return std::nullopt;
}

}  // namespace

Problems apply_overrides(const std::vector<std::string>& sets, json& spec,
                         std::vector<std::string>& paths) {
  Problems problems;
  for (const std::string& set : sets) {
    if (std::optional<Problem> problem = apply(set, spec, paths)) {
      problem->message += problem->path.empty() ? "" : ", in --set " + set;
      problems.push_back(std::move(*problem));
    }
  }
  return problems;
}

}  // namespace lockstep::api
