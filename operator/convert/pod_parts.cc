#include "operator/convert/pod_parts.h"

#include <algorithm>
#include <utility>

#include "operator/api/template_check.h"
#include "runtime/common/env_names.h"
#include "runtime/common/suggest.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr const char* kSharedMemory = "/dev/shm";

// The container `trainer` of the draft's template, made if need be.
json& trainer(Draft& draft) {
  json& containers = draft.spec["template"]["spec"]["containers"];
  if (!containers.is_array()) containers = json::array();
  for (json& container : containers) {
    if (text_at(container, "name") == api::kTrainerContainer) return container;
  }
  containers.push_back({{"name", api::kTrainerContainer}});
  return containers.back();
}

// True if a container of the draft's template mounts the volume.
bool is_mounted(const Draft& draft, const std::string& volume) {
  for (const char* const list : {"template.spec.containers", "template.spec.initContainers"}) {
    const json* containers = draft.find(list);
    if (containers == nullptr || !containers->is_array()) continue;
    for (const json& container : *containers) {
      const json* mounts = find_path(container, "volumeMounts");
      if (mounts == nullptr || !mounts->is_array()) continue;
      for (const json& mount : *mounts) {
        if (text_at(mount, "name") == volume) return true;
      }
    }
  }
  return false;
}

// True for memory that nothing mounts any more, for it was at /dev/shm.
bool is_shared_memory(const json& volume, const Draft& draft) {
  const json* medium = find_path(volume, "emptyDir.medium");
  const json* name = find_path(volume, "name");
  return medium != nullptr && *medium == "Memory" && name != nullptr && name->is_string() &&
         !is_mounted(draft, name->get<std::string>());
}

std::optional<Verdict> take_mounts(const json& value, Draft& draft) {
  if (!value.is_array()) return broken("must be a list, found " + value.dump());
  json kept = json::array();
  for (const json& mount : value) {
    if (text_at(mount, "mountPath") != kSharedMemory) kept.push_back(mount);
  }
  const bool all = kept.size() == value.size();
  if (!kept.empty()) trainer(draft)["volumeMounts"] = kept;
  if (all) return Verdict{.field = "template"};
  return changed("/dev/shm is mounted anyway, in memory");
}

// After the containers: keys come in the order of the alphabet.
std::optional<Verdict> take_volumes(const json& value, Draft& draft) {
  if (!value.is_array()) return broken("must be a list, found " + value.dump());
  json kept = json::array();
  for (const json& volume : value) {
    if (!is_shared_memory(volume, draft)) kept.push_back(volume);
  }
  if (!kept.empty()) draft.spec["template"]["spec"]["volumes"] = kept;
  if (kept.size() == value.size()) return Verdict{.field = "template"};
  return changed("ranks have a /dev/shm in memory anyway");
}

std::optional<Verdict> take_sidecars(const json& value, Draft& draft) {
  if (!value.is_array()) return broken("must be a list, found " + value.dump());
  trainer(draft);
  json& containers = draft.spec["template"]["spec"]["containers"];
  for (const json& container : value) containers.push_back(container);
  return Verdict{.field = "template"};
}

}  // namespace

Take into_template(std::string path) {
  return [path = std::move(path)](const json& value, Draft& draft) -> std::optional<Verdict> {
    const json* found = draft.find("template." + path);
    if (found != nullptr && *found != value) {
      return refused("spec.template." + path + " is already " + found->dump() + ", by another key");
    }
    json* at = &draft.spec["template"];
    std::string rest = path;
    for (size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      at = &(*at)[rest.substr(0, dot)];
      rest.erase(0, dot + 1);
    }
    (*at)[rest] = value;
    return Verdict{.field = "template"};
  };
}

Take into_trainer(std::string key) {
  return [key = std::move(key)](const json& value, Draft& draft) -> std::optional<Verdict> {
    trainer(draft)[key] = value;
    return Verdict{.field = "template"};
  };
}

std::optional<Verdict> take_env(const json& value, Draft& draft) {
  if (!value.is_array()) return broken("must be a list of variables, found " + value.dump());
  json plain = json::array();
  json sourced = json::array();
  std::vector<std::string> ours;
  for (const json& variable : value) {
    if (!variable.is_object() || !variable.contains("name") || !variable.at("name").is_string()) {
      return broken("has a variable without a name: " + variable.dump());
    }
    const auto name = variable.at("name").get<std::string>();
    if (common::is_reserved_env(name)) {
      ours.push_back(name);
    } else {
      (variable.contains("valueFrom") ? sourced : plain).push_back(variable);
    }
  }
  if (!sourced.empty()) trainer(draft)["env"] = sourced;
  if (!plain.empty()) {
    const Verdict verdict = draft.map("env", plain);
    if (verdict.broken || verdict.fate == Fate::kRefused) return verdict;
  }
  if (!ours.empty()) return changed(common::join(ours) + ": the operator sets it itself");
  if (value.empty()) return mapped("no variables");
  return Verdict{.field = plain.empty() ? "template" : "env"};
}

std::optional<Verdict> take_pod_resources(const json& value, Draft& draft) {
  const json* per_pod = draft.find("ranksPerPod");
  if (per_pod == nullptr || *per_pod == 1) return draft.map("resources", value);
  if (!value.is_object()) return broken("must be a map, found " + value.dump());
  trainer(draft)["resources"] = value;
  return Verdict{.field = "template", .text = "of the pod; spec.resources are those of one rank"};
}

Table container_rows(const std::string& root) {
  Table table = {{root + "name", without_effect("the container is called trainer")},
                 {root + "image", same("image")},
                 {root + "command", same("command")},
                 {root + "args", same("args")},
                 {root + "env", take_env},
                 {root + "resources", take_pod_resources},
                 {root + "volumeMounts", take_mounts},
                 {root + "terminationMessagePath",
                  without_effect("the first failure is read from the operator's own")},
                 {root + "terminationMessagePolicy",
                  without_effect("the first failure is read from the operator's own")}};
  for (const char* const key : {"envFrom", "imagePullPolicy", "lifecycle", "livenessProbe", "ports",
                                "readinessProbe", "securityContext", "startupProbe", "stdin",
                                "stdinOnce", "tty", "volumeDevices", "workingDir"}) {
    table.push_back({root + key, into_trainer(key)});
  }
  return table;
}

Table pod_rows(const std::string& pod) {
  const std::string spec = pod + "spec.";
  constexpr const char* kNames = "ranks find each other by the names of their pods";
  Table table = {
      {pod + "metadata.labels", into_template("metadata.labels")},
      {pod + "metadata.annotations", into_template("metadata.annotations")},
      {pod + "metadata.creationTimestamp", without_effect("the API server sets it")},
      {pod + "metadata.name", without_effect("pods are called after job, attempt and rank")},
      {spec + "volumes", take_volumes},
      {spec + "sidecars", take_sidecars},
      {spec + "imagePullSecrets", same("imagePullSecrets")},
      {spec + "restartPolicy", without_effect("the whole gang restarts: failurePolicy")},
      {spec + "activeDeadlineSeconds", same("activeDeadlineSeconds", "of the job")},
      {spec + "hostname", refuse(kNames)},
      {spec + "subdomain", refuse(kNames)},
      {spec + "nodeName", refuse("it would go around the scheduler: nodeSelector or affinity")},
  };
  for (const char* const key : {"affinity",
                                "automountServiceAccountToken",
                                "dnsConfig",
                                "dnsPolicy",
                                "enableServiceLinks",
                                "hostAliases",
                                "hostIPC",
                                "hostNetwork",
                                "hostPID",
                                "initContainers",
                                "nodeSelector",
                                "os",
                                "preemptionPolicy",
                                "priority",
                                "priorityClassName",
                                "readinessGates",
                                "resourceClaims",
                                "runtimeClassName",
                                "schedulerName",
                                "schedulingGates",
                                "securityContext",
                                "serviceAccount",
                                "serviceAccountName",
                                "shareProcessNamespace",
                                "terminationGracePeriodSeconds",
                                "tolerations",
                                "topologySpreadConstraints"}) {
    table.push_back({spec + key, into_template(std::string("spec.").append(key))});
  }
  return table;
}

void fill_in_program(Draft& draft, const char* why) {
  draft.fill_in("command", {"python3", "train.py"}, why);
  draft.fill_in("image", "registry.example/train:1", "an image with the program and its libraries");
}

}  // namespace lockstep::convert
