// What was made of every key, for people and for machines.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "operator/convert/conversion.h"

namespace lockstep::convert {

// "KEY (line 3) -> spec.train.steps: why"
std::string describe(const Note& note);

// The lists mapped, changed, refused and CHANGE, each with its number of entries.
//   source: what was read: "ds.json".
std::string render_report(const Conversion& conversion, const std::string& source);

// {"source", "tool", "mapped": [{"key", "line", "field", "text"}], "changed", "refused",
//  "change": [{"field", "text"}], "assumed": [..], "manifest": {..}}
nlohmann::json to_json(const Conversion& conversion, const std::string& source);

// The manifest as one object.
nlohmann::json manifest_json(const Conversion& conversion);

// `text` on one line: what is not printable ASCII becomes '?', line ends become spaces.
std::string printable(const std::string& text);

}  // namespace lockstep::convert
