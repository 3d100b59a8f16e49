#include "operator/api/template_check.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/job_fields.h"
#include "operator/api/kueue_names.h"
#include "operator/api/training_job.h"
#include "runtime/common/document.h"
#include "runtime/common/env_names.h"
#include "runtime/common/suggest.h"

namespace lockstep::api {
namespace {

using common::child_path;
using common::item_path;
using common::Problems;
using nlohmann::json;

constexpr const char* kRoot = "spec.template";

// A field that makes the gang, or that another field of the job decides.
struct Refusal {
  const char* field;
  const char* why;
  const char* hint;
};

constexpr const char* kNames = "ranks find each other by the names of their pods";

constexpr Refusal kPodRefusals[] = {
    {"restartPolicy", "a rank never rejoins alone: the whole gang restarts",
     "spec.failurePolicy decides on restarts"},
    {"hostname", kNames, "remove it"},
    {"hostnameOverride", kNames, "remove it"},
    {"subdomain", kNames, "remove it"},
    {"setHostnameAsFQDN", kNames, "remove it"},
    {"nodeName", "it would go around the scheduler", "give nodeSelector or affinity"},
    {"activeDeadlineSeconds", "it would end ranks one by one", "give spec.activeDeadlineSeconds"},
    {"ephemeralContainers", "they are for pods that run already", "use kubectl debug"},
};

constexpr Refusal kTrainerRefusals[] = {
    {"terminationMessagePath", "the first failure is read from it", "remove it"},
    {"terminationMessagePolicy", "the first failure is read by it", "remove it"},
    {"restartPolicy", "a rank never rejoins alone: the whole gang restarts",
     "spec.failurePolicy decides on restarts"},
    {"restartPolicyRules", "a rank never rejoins alone: the whole gang restarts",
     "spec.failurePolicy decides on restarts"},
};

// The member `key`, or null.
const json* find(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text(const json& object, std::string_view key) {
  const json* value = find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

// "/data/", "//data", "/data/." and "/data" are one folder.
std::string folder(const std::string& path) {
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal.starts_with("//") ? normal.substr(1) : normal;
}

bool is_at_or_below(const std::string& path, const std::string& folder) {
  return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

// Whether maps and lists are nested beyond what a manifest may hold: what follows recurses.
bool is_too_deep(const json& value) {
  std::vector<std::pair<const json*, int>> open = {{&value, 1}};
  while (!open.empty()) {
    const auto [next, depth] = open.back();
    open.pop_back();
    if (!next->is_structured()) continue;
    if (depth > kMaxTemplateDepth) return true;
    for (const json& child : *next) open.emplace_back(&child, depth + 1);
  }
  return false;
}

class TemplateCheck {
 public:
  explicit TemplateCheck(const json& spec) : spec_(spec) {}

  Problems check(const json& pod_template) {
    if (is_too_deep(pod_template)) {
      report(kRoot, "must not nest deeper than " + std::to_string(kMaxTemplateDepth) + " levels");
      return std::move(problems_);
    }
    if (pod_template.dump(-1, ' ', false, json::error_handler_t::replace).size() >
        static_cast<std::size_t>(kMaxTemplateBytes)) {
      report(kRoot, "must have at most " + std::to_string(kMaxTemplateBytes) + " bytes as JSON");
      return std::move(problems_);
    }
    check_values(pod_template, kRoot);
    only(pod_template, {"metadata", "spec"}, kRoot);
    if (const json* metadata = map_in(pod_template, "metadata", kRoot)) check_metadata(*metadata);
    if (const json* pod = map_in(pod_template, "spec", kRoot)) check_pod(*pod);
    return std::move(problems_);
  }

 private:
  void report(const std::string& path, std::string message, std::string hint = "") {
    problems_.push_back({.path = path, .message = std::move(message), .hint = std::move(hint)});
  }

  // A template has no way to take something away.
  void check_values(const json& value, const std::string& path) {
    if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) check_values(value[i], item_path(path, i));
      return;
    }
    if (!value.is_object()) return;
    for (const auto& [key, child] : value.items()) {
      const std::string at = child_path(path, key);
      const bool is_generated = key == "creationTimestamp";  // kubectl writes it into templates
      if (child.is_null() && !is_generated) {
        report(at, "has no value: a template adds and replaces, it removes nothing", "remove it");
      }
      if (key.starts_with('$')) report(at, "directives of patches mean nothing here", "remove it");
      check_values(child, at);
    }
  }

  void only(const json& object, const std::vector<std::string>& known, const std::string& path) {
    for (const auto& [key, ignored] : object.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      report(child_path(path, key), "cannot be set by a template", "known: " + common::join(known));
    }
  }

  void refuse(const json& object, std::span<const Refusal> refusals, const std::string& path) {
    for (const Refusal& refusal : refusals) {
      if (find(object, refusal.field) == nullptr) continue;
      report(child_path(path, refusal.field), std::string("cannot be set: ") + refusal.why,
             refusal.hint);
    }
  }

  // The map `key` of `object`; null if it is absent, or reported as something else.
  const json* map_in(const json& object, const char* key, const std::string& path) {
    const json* value = find(object, key);
    if (value == nullptr || value->is_object()) return value;
    report(child_path(path, key), "must be a map");
    return nullptr;
  }

  // The list `key` of `object`, whose items are maps, told apart by `item_key`; null if it is
  // absent or is no such list.
  const json* list_in(const json& object, const char* key, const char* item_key,
                      const std::string& path) {
    const json* list = find(object, key);
    if (list == nullptr) return nullptr;
    const std::string at = child_path(path, key);
    if (!list->is_array()) {
      report(at, "must be a list");
      return nullptr;
    }
    const bool is_port = std::string_view(item_key) == "containerPort";
    std::set<std::string> seen;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const json* value = find((*list)[i], item_key);
      const bool is_number = value != nullptr && value->is_number_integer();
      const bool is_key = value != nullptr && (value->is_string() || (is_number && is_port));
      if (!is_key) {
        report(item_path(at, i), std::string("must be a map with ") + item_key);
        return nullptr;
      }
      const std::string protocol = text((*list)[i], "protocol");  // of a port
      const std::string word = value->is_string()
                                   ? folder(value->get<std::string>())
                                   : value->dump() + (protocol == "TCP" ? "" : protocol);
      if (!seen.insert(word).second) {
        report(child_path(item_path(at, i), item_key), word + " appears twice in the list");
      }
    }
    return list;
  }

  void check_metadata(const json& metadata) {
    const std::string path = child_path(kRoot, "metadata");
    only(metadata, {"labels", "annotations", "creationTimestamp"}, path);
    for (const char* kind : {"labels", "annotations"}) {
      const json* map = map_in(metadata, kind, path);
      if (map == nullptr) continue;
      for (const auto& [key, ignored] : map->items()) {
        if (is_of_queue(key)) {
          report(child_path(child_path(path, kind), key), "is set by the operator itself",
                 std::string("label the TrainingJob with ") + kQueueLabel);
        }
        const bool is_ours = key.starts_with(std::string(kGroup) + "/") || is_our_label(key);
        if (is_ours) {
          report(child_path(child_path(path, kind), key), "is set by the operator itself",
                 "remove it");
        }
      }
    }
  }

  static bool is_of_queue(const std::string& key) {
    return key == kQueueLabel || key == kRetriableInGroup || key == kQueueFinalizer ||
           key.starts_with(kPodGroupPrefix);
  }

  static bool is_our_label(const std::string& key) {
    constexpr std::string_view kPrefix = "app.kubernetes.io/";
    if (!key.starts_with(kPrefix)) return false;
    const std::string_view name = std::string_view(key).substr(kPrefix.size());
    constexpr std::string_view kOurs[] = {"name", "instance", "component", "part-of", "managed-by"};
    return std::find(std::begin(kOurs), std::end(kOurs), name) != std::end(kOurs);
  }

  void check_pod(const json& pod) {
    const std::string path = child_path(kRoot, "spec");
    refuse(pod, kPodRefusals, path);
    check_grace(pod, path);
    check_dns(pod, path);
    check_gates(pod, path);
    map_in(pod, "securityContext", path);
    if (const json* affinity = map_in(pod, "affinity", path)) {
      map_in(*affinity, "nodeAffinity", child_path(path, "affinity"));
    }
    list_in(pod, "imagePullSecrets", "name", path);
    if (const json* volumes = list_in(pod, "volumes", "name", path)) check_volumes(*volumes, path);
    if (const json* containers = list_in(pod, "containers", "name", path)) {
      const std::string at = child_path(path, "containers");
      for (std::size_t i = 0; i < containers->size(); ++i) {
        const json& container = (*containers)[i];
        if (text(container, "name") == kTrainerContainer)
          check_trainer(container, item_path(at, i));
      }
    }
    if (const json* inits = list_in(pod, "initContainers", "name", path)) {
      for (std::size_t i = 0; i < inits->size(); ++i) {
        if (text((*inits)[i], "name") != kTrainerContainer) continue;
        report(child_path(item_path(child_path(path, "initContainers"), i), "name"),
               "trainer is the container of the rank");
      }
    }
  }

  void check_grace(const json& pod, const std::string& path) {
    constexpr const char* kField = "terminationGracePeriodSeconds";
    const json* grace = find(pod, kField);
    if (grace == nullptr) return;
    const std::string at = child_path(path, kField);
    if (find(spec_, "command") == nullptr) {
      report(at, "cannot be set: the checkpoint that ranks save at the end decides",
             "give spec.train.checkpoint.gracePeriodSeconds");
    } else if (!grace->is_number_integer() || grace->get<int64_t>() < 1 ||
               grace->get<int64_t>() > kMaxGraceSeconds) {
      report(at, "must be an integer from 1 to " + std::to_string(kMaxGraceSeconds));
    }
  }

  // Who sets a gate opens it. A queue opens none for pods that are not in it.
  void check_gates(const json& pod, const std::string& path) {
    const json* gates = list_in(pod, "schedulingGates", "name", path);
    if (gates == nullptr) return;
    for (std::size_t i = 0; i < gates->size(); ++i) {
      const std::string name = text((*gates)[i], "name");
      if (!name.starts_with(std::string(kKueueGroup) + "/")) continue;
      report(child_path(item_path(child_path(path, "schedulingGates"), i), "name"),
             name + " is set by the operator itself",
             std::string("label the TrainingJob with ") + kQueueLabel);
    }
  }

  // A pod on its host's network has the cluster's DNS only if it says so; we say so for it.
  void check_dns(const json& pod, const std::string& path) {
    const json* policy = find(pod, "dnsPolicy");
    if (policy == nullptr) return;
    const json* host = find(pod, "hostNetwork");
    const bool on_host = host != nullptr && *host == true;
    const bool resolves =
        *policy == "ClusterFirstWithHostNet" || (*policy == "ClusterFirst" && !on_host);
    if (resolves) return;
    report(child_path(path, "dnsPolicy"), "ranks find rank 0 through the cluster's DNS",
           on_host ? "use ClusterFirstWithHostNet, or leave it out"
                   : "leave it out; dnsConfig adds to it");
  }

  bool is_input(const std::string& volume) const {
    const json* inputs = find(spec_, "inputs");
    if (inputs == nullptr || !inputs->is_array()) return false;
    return std::any_of(inputs->begin(), inputs->end(),
                       [&](const json& input) { return volume == "input-" + text(input, "name"); });
  }

  void check_volumes(const json& volumes, const std::string& path) {
    const std::string at = child_path(path, "volumes");
    for (std::size_t i = 0; i < volumes.size(); ++i) {
      const std::string name = text(volumes[i], "name");
      const std::string where = item_path(at, i);
      if (name == "config") report(where, "config is the volume of the job's own ConfigMap");
      if (name == "output") report(where, "output is a volume of ours", "give spec.output");
      if (is_input(name)) report(where, name + " is a volume of ours", "give spec.inputs");
      if (name != "shm") continue;
      only(volumes[i], {"name", "emptyDir"}, where);
      if (const json* folder = map_in(volumes[i], "emptyDir", where)) {
        only(*folder, {"sizeLimit"}, child_path(where, "emptyDir"));
      }
    }
  }

  void check_trainer(const json& trainer, const std::string& path) {
    refuse(trainer, kTrainerRefusals, path);
    if (const json* security = map_in(trainer, "securityContext", path)) {
      map_in(*security, "capabilities", child_path(path, "securityContext"));
    }
    if (const json* resources = map_in(trainer, "resources", path)) {
      map_in(*resources, "limits", child_path(path, "resources"));
      map_in(*resources, "requests", child_path(path, "resources"));
    }
    list_in(trainer, "ports", "containerPort", path);
    check_words(trainer, "command", path);
    check_words(trainer, "args", path);
    if (const json* env = list_in(trainer, "env", "name", path)) {
      for (std::size_t i = 0; i < env->size(); ++i) check_variable((*env)[i], path, i);
    }
    if (const json* mounts = list_in(trainer, "volumeMounts", "mountPath", path)) {
      for (std::size_t i = 0; i < mounts->size(); ++i) check_mount((*mounts)[i], path, i);
    }
  }

  void check_words(const json& trainer, const char* key, const std::string& path) {
    const json* words = find(trainer, key);
    if (words == nullptr) return;
    const bool are_texts =
        words->is_array() && std::all_of(words->begin(), words->end(),
                                         [](const json& word) { return word.is_string(); });
    const bool is_empty = words->is_array() && words->empty();
    if (are_texts && !is_empty) return;
    report(child_path(path, key), "must be a list of strings, at least one");
  }

  void check_variable(const json& variable, const std::string& path, std::size_t index) {
    const std::string at = item_path(child_path(path, "env"), index);
    const std::string name = text(variable, "name");
    if (common::is_reserved_env(name)) {
      report(child_path(at, "name"), name + " is set by the operator itself", "remove it");
    }
    const json* value = find(variable, "value");
    if (value != nullptr && !value->is_string()) {
      report(child_path(at, "value"), "must be a string", "put the value in quotes");
    }
  }

  void check_mount(const json& mount, const std::string& path, std::size_t index) {
    const std::string at =
        child_path(item_path(child_path(path, "volumeMounts"), index), "mountPath");
    const std::string place = folder(text(mount, "mountPath"));
    const auto is_ours = [&](const std::string& ours) { return is_at_or_below(place, ours); };
    bool is_taken = is_ours("/etc/lockstep") || is_ours("/output") || place == "/dev/shm";
    if (const json* inputs = find(spec_, "inputs"); inputs != nullptr && inputs->is_array()) {
      for (const json& input : *inputs) {
        is_taken = is_taken || is_ours(folder(text(input, "mountPath")));
      }
    }
    if (is_taken) report(at, place + " is a mount of ours, or below one", "mount elsewhere");
  }

  static constexpr int64_t kMaxGraceSeconds = 86400;

  const json& spec_;
  Problems problems_;
};

}  // namespace

Problems check_template(const json& spec) {
  const json* pod_template = find(spec, "template");
  if (pod_template == nullptr || !pod_template->is_object()) return {};  // the table's matter
  return TemplateCheck(spec).check(*pod_template);
}

}  // namespace lockstep::api
