// What every import must hold, and short ways to ask what became of a key.
#pragma once

#include <string>
#include <vector>

#include "operator/convert/import_source.h"
#include "operator/convert/table.h"

namespace lockstep::convert {

// Imports `text` and holds the result to what every import must be: no problems, a manifest that
// the check of lockstep validate accepts, and every key of the source in exactly one note.
Imported import_valid(const std::string& text, const std::string& from = "auto",
                      const std::vector<std::string>& sets = {});

// The problems of a source that must not be imported, one a line: "3 a.b: message".
std::string import_broken(const std::string& text, const std::string& from = "auto");

// "mapped", "changed" or "refused", then the field if there is one: "mapped train.steps". "none" if
// no note has the key.
std::string fate(const Imported& imported, const std::string& key);

// The value at a field of the job, below spec; null if it has none.
nlohmann::json field(const Imported& imported, const std::string& path);

// Fields with CHANGE, below spec, sorted and joined by a space.
std::string to_change(const Imported& imported);

// Keys that were refused, in order, joined by a space.
std::string refusals(const Imported& imported);

// Holds that every key of `table` has exactly one note or problem, whatever its value.
void expect_one_answer_per_key(const Table& table);

}  // namespace lockstep::convert
