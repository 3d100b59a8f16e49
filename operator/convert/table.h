// A table of another tool's keys: what becomes of each. Every key of a document gets exactly one
// note; a key that is in no table is refused by name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operator/convert/draft.h"
#include "runtime/common/document.h"

namespace lockstep::convert {

// What becomes of a key whose value is not null. Nothing: that is up to the keys below it.
using Take = std::function<std::optional<Verdict>(const nlohmann::json& value, Draft& draft)>;

struct Row {
  std::string key;  // its path in the document: "zero_optimization.stage"
  Take take;
};
using Table = std::vector<Row>;

// The rows of all of `parts`.
Table joined(const std::vector<Table>& parts);

// Ways to take a key.

// It is the field `field` (below spec).
Take same(std::string field, std::string text = "");
// Lockstep always does as `value` says; `text` for any other value of that type.
Take always(nlohmann::json value, std::string text);
// It decides nothing here; `text` says what does.
Take without_effect(std::string text);
// Lockstep does not have it, whatever its value.
Take refuse(std::string text);
// Lockstep does not have it; mapped if it is switched off.
Take refuse_unless_off(std::string text);
// A size of groups that Lockstep does not have; mapped if it is 1 or off.
Take refuse_above_one(std::string text);
// Something else serves in its place; mapped if it is switched off.
Take change_unless_off(std::string text);
// Keys below count only if `enabled` is there and not false; else all of it is mapped as off.
Take section_if_enabled();

// Takes every key of `document`.
// Writes notes to `notes`, what is wrong with the source to `problems`. Uses document.value by way
// of draft.source, which is set.
void take_all(const Table& table, const common::Document& document, Draft& draft,
              std::vector<Note>& notes, common::Problems& problems);

}  // namespace lockstep::convert
