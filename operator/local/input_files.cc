#include "operator/local/input_files.h"

#include <glob.h>

namespace lockstep::local {

namespace {

bool matches_something(const std::string& pattern) {
  glob_t found{};
  const int rc = glob(pattern.c_str(), GLOB_BRACE | GLOB_NOSORT, nullptr, &found);
  globfree(&found);
  return rc == 0;
}

}  // namespace

common::Problems find_missing_inputs(const api::TrainingJob& job) {
  if (!job.spec.train.is_object()) return {};
  const nlohmann::json data = job.spec.train.value("data", nlohmann::json::object());
  common::Problems problems;
  for (const std::string field : {"train", "validation"}) {
    const auto found = data.find(field);
    if (found == data.end() || !found->is_string()) continue;
    const auto pattern = found->get<std::string>();
    if (pattern.empty() || matches_something(pattern)) continue;
    problems.push_back(
        {.path = "spec.train.data." + field,
         .message = "nothing here matches '" + pattern + "'",
         .hint =
             "relative paths start at the current folder; --input NAME=PATH stands for a volume",
         .warning = true});
  }
  return problems;
}

}  // namespace lockstep::local
