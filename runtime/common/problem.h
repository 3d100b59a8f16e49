// One thing wrong with a user's file, said once: where, what was found, what to do.
#pragma once

#include <string>
#include <vector>

namespace lockstep::common {

struct Problem {
  std::string path;      // field path, e.g. "spec.train.batch.globalBatchSize"
  int line = 0;          // 1-based line in the file; 0 = unknown
  std::string message;   // what was found and what is expected
  std::string hint;      // what to do; may be empty
  bool warning = false;  // does not refuse the file
};
using Problems = std::vector<Problem>;

// "FILE:12: spec.train.steps: must be at least 1, found 0 (hint)"
std::string to_string(const Problem& problem, const std::string& file);
bool has_errors(const Problems& problems);

}  // namespace lockstep::common
