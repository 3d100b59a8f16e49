// What becomes of another tool's configuration: fields of a TrainingJob, and a note for every key.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/problem.h"

namespace lockstep::convert {

enum class Fate {
  kMapped,   // means the same here
  kChanged,  // has no twin: something else serves, or nothing has to
  kRefused,  // this version cannot do it, and without it the job is another one
};

// What became of one key of the source. A note of an object or a list is of all below it.
struct Note {
  std::string key;  // its path in the source, or a flag
  int line = 0;     // 1-based; 0 = unknown
  Fate fate = Fate::kMapped;
  std::string field;  // what it decides, below spec: "train.steps"; may be empty
  std::string text;   // why; may be empty if it is mapped
};

// A field of the job that no key of the source decides.
struct Remark {
  std::string field;     // below spec
  bool fill_in = false;  // true: only the user knows; false: the other tool's default
  std::string text;
};

struct Conversion {  // NOLINT(bugprone-exception-escape): json moves without throwing
  std::string tool;  // whose configuration it was: "DeepSpeed"
  nlohmann::json metadata = nlohmann::json::object();
  nlohmann::json spec = nlohmann::json::object();
  std::vector<Note> notes;      // by line
  std::vector<Remark> remarks;  // in the order in which they came up
  common::Problems problems;    // of a broken source: then there is no job
};

bool has_refusals(const Conversion& conversion);

}  // namespace lockstep::convert
