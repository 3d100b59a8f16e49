// YAML or JSON text as JSON values that know their lines.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/problem.h"

namespace lockstep::common {

struct Document {  // NOLINT(bugprone-exception-escape): json moves without throwing
  nlohmann::json value;
  std::map<std::string, int> lines;  // field path -> 1-based line of its key or list item

  // The line of `path`, or of its nearest ancestor that has one; 0 = unknown.
  int line_of(const std::string& path) const;
};

struct ParsedText {
  std::vector<Document> documents;  // in order; lines count from the start of the text
  Problems problems;                // syntax errors and duplicate keys; path empty for the former
};

// Parses YAML 1.2 core schema (hence JSON too), possibly of several documents separated by `---`.
// Quoted scalars stay strings; only true and false are booleans; anchors, aliases and `<<` are
// expanded. Never throws: what is wrong is in `problems`, with line and column. After a syntax
// error `documents` is empty.
ParsedText parse_documents(std::string_view text);

// The path of a key in the object at `parent`: "a.b", or "a[x/y]" for a key that is no identifier.
std::string child_path(const std::string& parent, const std::string& key);
// The path of an item of the list at `parent`: "a[3]".
std::string item_path(const std::string& parent, size_t index);
// True if `path` is `ancestor` or lies below it.
bool is_within(const std::string& path, const std::string& ancestor);

}  // namespace lockstep::common
