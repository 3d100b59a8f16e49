#include "operator/local/localize.h"

#include <utility>

#include "operator/api/template_check.h"
#include "runtime/common/document.h"

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

// Variables whose value only a cluster knows.
void add_unknown_values(const json& env, const std::string& path, std::vector<std::string>& out) {
  for (size_t i = 0; i < env.size(); ++i) {
    if (env[i].contains("valueFrom")) out.push_back(common::item_path(path, i) + ".valueFrom");
  }
}

void add_containers(const json& containers, std::vector<std::string>& out) {
  for (size_t i = 0; i < containers.size(); ++i) {
    const std::string at = common::item_path("spec.template.spec.containers", i);
    if (containers[i].value("name", "") != api::kTrainerContainer) {
      out.push_back(at);
      continue;
    }
    for (const auto& [key, value] : containers[i].items()) {
      if (key == "env") add_unknown_values(value, at + ".env", out);
      if (key == "name" || key == "env" || key == "command" || key == "args") continue;
      out.push_back(common::child_path(at, key));
    }
  }
}

}  // namespace

std::vector<std::string> without_effect_here(const json& pod_template) {
  std::vector<std::string> out;
  if (!pod_template.is_object()) return out;
  if (pod_template.contains("metadata")) out.emplace_back("spec.template.metadata");
  const json pod = pod_template.value("spec", json::object());
  for (const auto& [key, value] : pod.items()) {
    if (key == "containers") {
      add_containers(value, out);
    } else {
      out.push_back(common::child_path("spec.template.spec", key));
    }
  }
  return out;
}

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
