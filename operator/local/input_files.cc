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
  const std::string pattern = data.value("train", "");
  if (pattern.empty() || matches_something(pattern)) return {};
  return {
      {.path = "spec.train.data.train",
       .message = "nothing here matches '" + pattern + "'",
       .hint = "relative paths start at the current folder; --input NAME=PATH stands for a volume",
       .warning = true}};
}

}  // namespace lockstep::local
