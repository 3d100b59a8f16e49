#include "operator/convert/table.h"

#include <algorithm>
#include <utility>

#include "runtime/common/suggest.h"

namespace lockstep::convert {
namespace {

using common::Document;
using nlohmann::json;

constexpr const char* kNotSet = "not set";
constexpr const char* kOff = "off, as here";

struct Walk {
  const Table& table;
  const Document& document;
  Draft& draft;
  std::vector<Note>& notes;
  common::Problems& problems;
};

const Row* find_row(const Table& table, const std::string& key) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Row& row) { return row.key == key; });
  return found == table.end() ? nullptr : &*found;
}

bool has_rows_below(const Table& table, const std::string& key) {
  return std::any_of(table.begin(), table.end(),
                     [&](const Row& row) { return row.key.starts_with(key + "."); });
}

// "unknown key", and which one it may have been.
std::string unknown(const Table& table, const std::string& key) {
  std::vector<std::string> known;
  known.reserve(table.size());
  for (const Row& row : table) known.push_back(row.key);
  const std::optional<std::string> near = common::closest(key, known);
  return near ? "unknown key: did you mean " + *near + "?" : "unknown key";
}

void add(const std::string& key, Verdict verdict, Walk& walk) {
  const int line = walk.document.line_of(key);
  if (verdict.broken) {
    walk.problems.push_back({.path = key, .line = line, .message = std::move(verdict.text)});
    return;
  }
  walk.notes.push_back({.key = key,
                        .line = line,
                        .fate = verdict.fate,
                        .field = std::move(verdict.field),
                        .text = std::move(verdict.text)});
}

void take(const std::string& key, const json& value, Walk& walk) {
  const bool below = has_rows_below(walk.table, key);
  if (const Row* row = find_row(walk.table, key)) {
    std::optional<Verdict> verdict =
        value.is_null() ? mapped(kNotSet) : row->take(value, walk.draft);
    if (verdict) return add(key, std::move(*verdict), walk);
  }
  if (!below) return add(key, refused(unknown(walk.table, key)), walk);
  if (value.is_null() || (value.is_object() && value.empty())) {
    return add(key, mapped(kNotSet), walk);
  }
  if (!value.is_object()) return add(key, broken("must be a map, found " + value.dump()), walk);
  for (const auto& [name, child] : value.items()) take(common::child_path(key, name), child, walk);
}

}  // namespace

Table joined(const std::vector<Table>& parts) {
  Table all;
  for (const Table& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Take same(std::string field, std::string text) {
  return [field = std::move(field), text = std::move(text)](const json& value, Draft& draft) {
    return std::optional(draft.map(field, value, text));
  };
}

Take always(json value, std::string text) {
  return [value = std::move(value), text = std::move(text)](const json& found, Draft&) {
    if (found == value) return std::optional(mapped(text));
    const bool same_type = found.type() == value.type() || (found.is_number() && value.is_number());
    if (same_type) return std::optional(changed(text));
    return std::optional(broken("cannot be " + found.dump() + ": must be like " + value.dump()));
  };
}

Take without_effect(std::string text) {
  return [text = std::move(text)](const json&, Draft&) { return std::optional(changed(text)); };
}

Take refuse(std::string text) {
  return [text = std::move(text)](const json&, Draft&) { return std::optional(refused(text)); };
}

Take refuse_unless_off(std::string text) {
  return [text = std::move(text)](const json& value, Draft&) {
    return std::optional(is_off(value) ? mapped(kOff) : refused(text));
  };
}

Take refuse_above_one(std::string text) {
  return [text = std::move(text)](const json& value, Draft&) {
    const bool is_one = value.is_number() && value == 1;
    return std::optional(is_one || is_off(value) ? mapped(kOff) : refused(text));
  };
}

Take change_unless_off(std::string text) {
  return [text = std::move(text)](const json& value, Draft&) {
    return std::optional(is_off(value) ? mapped(kOff) : changed(text));
  };
}

Take section_if_enabled() {
  return [](const json& value, Draft&) -> std::optional<Verdict> {
    if (!value.is_object()) return broken("must be a map, found " + value.dump());
    const json* enabled = find_path(value, "enabled");
    if (enabled != nullptr && !enabled->is_boolean() && !is_auto(*enabled)) {
      return broken("enabled must be true or false, found " + enabled->dump());
    }
    if (enabled == nullptr || *enabled == false) return mapped(kOff);
    return std::nullopt;
  };
}

void take_all(const Table& table, const Document& document, Draft& draft, std::vector<Note>& notes,
              common::Problems& problems) {
  draft.source = document.value;
  if (!document.value.is_object()) {
    problems.push_back({.line = 1, .message = "must be a map of keys"});
    return;
  }
  Walk walk{table, document, draft, notes, problems};
  for (const auto& [name, value] : document.value.items()) {
    take(common::child_path("", name), value, walk);
  }
  std::stable_sort(notes.begin(), notes.end(),
                   [](const Note& a, const Note& b) { return a.line < b.line; });
}

}  // namespace lockstep::convert
