#include "runtime/common/problem.h"

#include <algorithm>

namespace lockstep::common {

std::string to_string(const Problem& problem, const std::string& file) {
  std::string text = file;
  if (problem.line > 0) text.append(":").append(std::to_string(problem.line));
  if (!text.empty()) text += ": ";
  if (problem.warning) text += "warning: ";
  if (!problem.path.empty()) text += problem.path + ": ";
  text += problem.message;
  if (!problem.hint.empty()) text += " (" + problem.hint + ")";
  return text;
}

bool has_errors(const Problems& problems) {
  return std::any_of(problems.begin(), problems.end(),
                     [](const Problem& problem) { return !problem.warning; });
}

}  // namespace lockstep::common
