#include "operator/plan/overlay.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace lockstep::plan {
namespace {

using nlohmann::json;

// How a list is merged. Source of the keys: the patchMergeKey tags of kubernetes core/v1 types.go.
struct ListRule {
  std::string_view list;
  std::string_view key;
  bool replaces = false;  // an item as a whole: its members exclude each other
};

constexpr ListRule kListRules[] = {
    {.list = "containers", .key = "name"},       {.list = "volumes", .key = "name"},
    {.list = "imagePullSecrets", .key = "name"}, {.list = "volumeMounts", .key = "mountPath"},
    {.list = "ports", .key = "containerPort"},   {.list = "env", .key = "name", .replaces = true},
};

constexpr std::string_view kAddedTo = "preferredDuringSchedulingIgnoredDuringExecution";

const ListRule* rule_of(std::string_view list) {
  const auto found = std::find_if(std::begin(kListRules), std::end(kListRules),
                                  [&](const ListRule& rule) { return rule.list == list; });
  return found == std::end(kListRules) ? nullptr : found;
}

json member(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? json() : *found;
}

// What tells an item from others of its list; null if it lacks that.
json identity(const json& item, const ListRule& rule) {
  const json key = member(item, rule.key);
  if (key.is_null() || rule.list != "ports") return key;
  const json protocol = member(item, "protocol");
  return json::array({key, protocol.is_null() ? json("TCP") : protocol});
}

void merge(json& base, const json& patch, std::string_view name);

void merge_items(json& base, const json& patch, const ListRule& rule) {
  for (const json& item : patch) {
    const json wanted = identity(item, rule);
    const auto found = std::find_if(base.begin(), base.end(), [&](const json& candidate) {
      return wanted.is_null() ? candidate == item : identity(candidate, rule) == wanted;
    });
    if (found == base.end()) {
      base.push_back(item);
    } else if (rule.replaces) {
      *found = item;
    } else {
      merge(*found, item, "");
    }
  }
}

void add_items(json& base, const json& patch) {
  for (const json& item : patch) {
    if (std::find(base.begin(), base.end(), item) == base.end()) base.push_back(item);
  }
}

// Lays `patch` over `base`, the value of the field `name`.
void merge(json& base, const json& patch, std::string_view name) {
  const ListRule* rule = rule_of(name);
  if (base.is_object() && patch.is_object()) {
    for (const auto& [key, value] : patch.items()) {
      const auto found = base.find(key);
      if (found == base.end()) {
        base[key] = value;
      } else {
        merge(*found, value, key);
      }
    }
  } else if (base.is_array() && patch.is_array() && rule != nullptr) {
    merge_items(base, patch, *rule);
  } else if (base.is_array() && patch.is_array() && name == kAddedTo) {
    add_items(base, patch);
  } else {
    base = patch;
  }
}

}  // namespace

json lay_over(json pod, const json& pod_template) {
  for (const char* part : {"metadata", "spec"}) {
    const json patch = member(pod_template, part);
    if (patch.is_object()) merge(pod[part], patch, part);
  }
  if (pod["metadata"].is_object()) {  // kubectl writes "creationTimestamp: null" into templates
    const json time = member(pod["metadata"], "creationTimestamp");
    if (time.is_null()) pod["metadata"].erase("creationTimestamp");
  }
  return pod;
}

}  // namespace lockstep::plan
