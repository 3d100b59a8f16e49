// Flags of a command line as a document of keys.
#pragma once

#include <string>
#include <vector>

#include "operator/convert/table.h"

namespace lockstep::convert {

struct ParsedFlags {              // NOLINT(bugprone-exception-escape): json moves without throwing
  common::Document document;      // "--nproc-per-node=4" is {"nproc_per_node": 4}; no lines
  std::vector<std::string> rest;  // from the first word on that is no flag
  common::Problems problems;
};

// The flags at the front of `words`. Those in `switches` have no value; every other needs a row in
// `table`: without one, what follows it could be its value or the script, so it is a problem, as is
// a flag that is there twice. '-' and '_' in names are alike; "-m" is {"m": true}.
ParsedFlags parse_flags(const std::vector<std::string>& words,
                        const std::vector<std::string>& switches, const Table& table);

// All of `words` as flags: one that another flag or nothing follows is true.
ParsedFlags parse_open_flags(const std::vector<std::string>& words);

// A word as the scalar that YAML reads in it: 4, 0.1, true, "text".
nlohmann::json flag_value(const std::string& word);

}  // namespace lockstep::convert
