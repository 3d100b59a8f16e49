#include "operator/local/localize.h"

#include <utility>

namespace lockstep::local {

using nlohmann::json;

namespace {

// `path` with the leading folder `from` replaced; `from` matches whole path components only.
std::string move_path(const std::string& path, const std::string& from, const std::string& to) {
  if (!path.starts_with(from)) return path;
  const bool whole = path.size() == from.size() || path[from.size()] == '/' || from.ends_with('/');
  return whole ? to + path.substr(from.size()) : path;
}

void move_strings(json& value, const std::string& from, const std::string& to) {
  if (value.is_string()) value = move_path(value.get<std::string>(), from, to);
  if (!value.is_structured()) return;
  for (json& child : value) move_strings(child, from, to);
}

}  // namespace

api::TrainingJob localize(api::TrainingJob job, const std::map<std::string, std::string>& inputs,
                          common::Problems& problems) {
  for (const auto& [name, path] : inputs) {
    bool known = false;
    if (!job.spec.inputs.is_array()) job.spec.inputs = json::array();
    for (const json& input : job.spec.inputs) {
      if (input.value("name", "") != name) continue;
      known = true;
      move_strings(job.spec.train, input.value("mountPath", ""), path);
    }
    if (known) continue;
    problems.push_back({"spec.inputs", 0,
                        "--input " + name + ": the manifest has no input of that name",
                        "name one of spec.inputs", false});
  }
  return job;
}

std::string default_output(const api::TrainingJob& job) {
  return "runs/" + job.meta.name;
}

}  // namespace lockstep::local
