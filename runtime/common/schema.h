// A table of fields: names, types, defaults, bounds, docs. From one table come the check of a
// user's file, the schema of the CRD and the reference in the docs, so that they cannot drift
// apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/document.h"
#include "runtime/common/problem.h"

namespace lockstep::common {

enum class FieldType {
  kString,
  kInteger,
  kNumber,
  kBoolean,
  kObject,    // known keys: `children`
  kList,      // items: `element`
  kMap,       // any keys, values: `element`
  kFree,      // a map of whatever; who reads it checks it
  kQuantity,  // a Kubernetes quantity: an integer, or a string such as "500m" or "64Gi"
};

// What a quantity's text looks like.
inline constexpr const char* kQuantityPattern =
    "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$";
inline constexpr int64_t kMaxQuantityLength = 64;

// A validation rule of the CRD in CEL; the C++ checks of relations say the same in words.
struct CelRule {
  std::string rule;
  std::string message;
  std::string field_path;  // relative, e.g. ".batch.globalBatchSize"; may be empty
};

struct Field {
  std::string name{};
  FieldType type = FieldType::kString;
  std::string doc{};
  nlohmann::json default_value{};  // null = none; an object's {} fills in its children's defaults
  bool required = false;
  bool nullable = false;  // null is a value of its own, kept; else it means absent
  std::optional<double> minimum{}, maximum{};
  bool exclusive_minimum = false, exclusive_maximum = false;
  std::vector<nlohmann::json> choices{};
  std::vector<std::string> planned{};        // choices or keys that are known, but not honoured yet
  std::string pattern{};                     // a subset that POSIX ERE and RE2 read alike
  std::string pattern_hint{};                // what `pattern` wants, in words
  int64_t min_length = 0, max_length = 256;  // characters of a string
  int64_t min_items = 0, max_items = 64;     // items of a list, keys of a map
  std::vector<Field> children{};
  std::vector<Field> element{};  // exactly one for kList and kMap
  std::string list_key{};        // items are objects, unique by this key
  std::vector<CelRule> rules{};
};

struct Checked {
  nlohmann::json value;  // defaults filled in, numbers canonical; what is wrong is left as found
  Problems problems;     // all of them
};

// Checks `value` against `field` and fills in defaults. Null means absent unless the field is
// nullable, as for an API server.
//   path:   field path of `value`, e.g. "spec.train".
//   source: where lines are looked up by path; may be null.
// Idempotent: checking the result again yields the same value.
Checked check_and_default(const Field& field, const nlohmann::json& value, const std::string& path,
                          const Document* source = nullptr);

// What is wrong with `key`, which `object` has not: unknown or not supported yet, and what to do.
Problem unknown_key(const Field& object, const std::string& key, const std::string& path);

// True if `pattern` (POSIX extended) is found in `text`. POSIX, because std::regex recurses once
// per character.
bool matches(const std::string& text, const std::string& pattern);

// The child named `name`, or null.
const Field* find_child(const Field& object, const std::string& name);

// The structural OpenAPI v3 schema of `field` for a CustomResourceDefinition.
nlohmann::json openapi_schema(const Field& field);

// A Markdown table of all fields below `field`, one row each: path, type, default, meaning.
std::string markdown_reference(const Field& field, const std::string& path);

}  // namespace lockstep::common
