#include "tests/support/gang_double/gang_double.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <utility>
#include <variant>

#include "operator/api/gang_names.h"
#include "operator/api/json_read.h"

namespace lockstep::testing {

using nlohmann::json;

namespace {

const kube::ResourceType kPods{"", "v1", "pods"};

json metadata_of(const json& object) {
  return api::member(object, "metadata");
}

std::string name_of(const json& object) {
  return api::text(metadata_of(object), "name");
}

bool is_deleting(const json& object) {
  return metadata_of(object).contains("deletionTimestamp");
}

std::string node_of(const json& pod) {
  return api::text(api::member(pod, "spec"), "nodeName");
}

std::string phase_of(const json& pod) {
  return api::text(api::member(pod, "status"), "phase");
}

bool has_ended(const json& pod) {
  return phase_of(pod) == "Failed" || phase_of(pod) == "Succeeded";
}

bool is_gated(const json& pod) {
  return !api::member(api::member(pod, "spec"), "schedulingGates").empty();
}

json condition(const char* type, bool holds, const char* reason, const std::string& message) {
  return {{"type", type},
          {"status", holds ? "True" : "False"},
          {"reason", reason},
          {"message", message},
          {"lastTransitionTime", "2026-01-01T00:00:00Z"}};
}

}  // namespace

GangDouble::GangDouble(kube::Client& client, GangDialect dialect, GangOptions options)
    : client_(client), dialect_(dialect), options_(std::move(options)) {}

std::string GangDouble::group_of(const json& pod) const {
  switch (dialect_) {
    case GangDialect::kCoscheduling:
      return api::text(api::member(metadata_of(pod), "labels"), api::kCoschedulingLabel);
    case GangDialect::kVolcano:
      return api::text(api::member(metadata_of(pod), "annotations"), api::kVolcanoAnnotation);
    case GangDialect::kNative:
      break;
  }
  return api::text(api::member(api::member(pod, "spec"), api::kNativeField), "podGroupName");
}

std::string GangDouble::scheduler_name() const {
  switch (dialect_) {
    case GangDialect::kCoscheduling:
      return options_.coscheduling_name;
    case GangDialect::kVolcano:
      return api::kVolcanoScheduler;
    case GangDialect::kNative:
      break;
  }
  return api::kDefaultScheduler;
}

int GangDouble::room() const {
  const char* name = "native";
  if (dialect_ == GangDialect::kCoscheduling) name = "coscheduling";
  if (dialect_ == GangDialect::kVolcano) name = "volcano";
  int room = 0;
  std::ifstream(options_.rooms_dir + "/" + name) >> room;
  return room;
}

kube::ResourceType GangDouble::group_type() const {
  switch (dialect_) {
    case GangDialect::kCoscheduling:
      return {api::kCoschedulingGroup, api::kCoschedulingVersion, api::kPodGroupPlural};
    case GangDialect::kVolcano:
      return {api::kVolcanoGroup, api::kVolcanoVersion, api::kPodGroupPlural};
    case GangDialect::kNative:
      break;
  }
  return {api::kNativeGroup, api::kNativeVersion, api::kPodGroupPlural};
}

int GangDouble::size_of(const json& group) const {
  const json spec = api::member(group, "spec");
  if (dialect_ != GangDialect::kNative) {
    return static_cast<int>(api::optional_integer(spec, "minMember").value_or(0));
  }
  const json gang = api::member(api::member(spec, "schedulingPolicy"), "gang");
  return static_cast<int>(api::optional_integer(gang, "minCount").value_or(0));
}

void GangDouble::sync() {
  // The pods first: a group that one of them names was made before it, so it is in the second list.
  const auto pods = client_.list({kPods, options_.ns, "", ""}, {}, {});
  const auto groups = client_.list({group_type(), options_.ns, "", ""}, {}, {});
  if (std::holds_alternative<kube::ApiError>(pods) ||
      std::holds_alternative<kube::ApiError>(groups)) {
    return;  // the type is not served, or a later sync tries again
  }
  std::map<std::string, Members> members;
  used_ = 0;
  for (const json& pod : std::get<json>(pods)["items"]) {
    const std::string group = group_of(pod);
    if (group.empty() || has_ended(pod)) continue;
    const bool holds_node = !node_of(pod).empty();
    if (holds_node) ++used_;
    if (is_deleting(pod)) continue;
    if (api::text(pod["spec"], "schedulerName") != scheduler_name()) {
      breach("POD OF ANOTHER SCHEDULER", name_of(pod));
    }
    Members& of_group = members[group];
    if (holds_node) ++of_group.placed;
    if (phase_of(pod) == "Running") ++of_group.running;
    if (!holds_node && !is_gated(pod)) of_group.waiting.push_back(&pod);
  }
  for (const json& group : std::get<json>(groups)["items"]) known_groups_.insert(name_of(group));
  report_breaches(members);
  for (const json& group : std::get<json>(groups)["items"]) {
    if (!is_deleting(group)) sync_group(group, members[name_of(group)]);
  }
}

void GangDouble::report_breaches(const std::map<std::string, Members>& members) {
  for (const auto& [group, of_group] : members) {
    if (!known_groups_.contains(group)) breach("POD BEFORE ITS GROUP", group);
  }
}

void GangDouble::sync_group(const json& group, const Members& members) {
  const int size = size_of(group);
  const int waiting = static_cast<int>(members.waiting.size());
  if (waiting + members.placed > size) breach("EXCESS POD", name_of(group));
  if (waiting == 0) return tell(group, members, "");
  if (waiting + members.placed < size) {
    return tell(group, members,
                "only " + std::to_string(waiting + members.placed) + " of " + std::to_string(size) +
                    " pods are there");
  }
  if (room() - used_ < waiting) {
    return tell(group, members,
                std::to_string(waiting) + "/" + std::to_string(size) +
                    " tasks in gang unschedulable: no room for all of them");
  }
  for (const json* pod : members.waiting) {
    if (bind(*pod)) ++used_;
  }
}

bool GangDouble::bind(const json& pod) {
  const json binding = {
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata", {{"name", name_of(pod)}, {"uid", metadata_of(pod)["uid"]}}},
      {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", options_.node}}}};
  const auto bound = client_.create({kPods, options_.ns, name_of(pod), "binding"}, binding);
  if (const auto* error = std::get_if<kube::ApiError>(&bound)) {
    std::cerr << "gang-double: bind " << name_of(pod) << ": " << error->error.message << std::endl;
    return false;
  }
  return true;
}

json GangDouble::status_of(const Members& members, const std::string& wait) const {
  const bool has_pods = members.placed > 0 || !members.waiting.empty();
  switch (dialect_) {
    case GangDialect::kCoscheduling:  // which says why on the pods alone
      if (!has_pods) return {{"phase", "Pending"}};
      return {{"phase", wait.empty() ? "Running" : "Scheduling"}, {"running", members.running}};
    case GangDialect::kVolcano:
      if (!has_pods) return {{"phase", "Pending"}};
      if (!wait.empty()) {
        return {{"phase", "Inqueue"},
                {"conditions",
                 json::array({condition("Unschedulable", true, "NotEnoughResources", wait)})}};
      }
      return {{"phase", "Running"},
              {"conditions",
               json::array({condition("Scheduled", true, "Ready", "tasks in gang are ready")})}};
    case GangDialect::kNative:
      break;
  }
  if (!has_pods) return json::object();
  const bool holds = wait.empty();
  const json scheduled =
      condition("PodGroupScheduled", holds, holds ? "Scheduled" : "Unschedulable", wait);
  return {{"conditions", json::array({scheduled})}};
}

void GangDouble::tell(const json& group, const Members& members, const std::string& wait) {
  const json status = status_of(members, wait);
  json& told = told_[api::text(metadata_of(group), "uid")];
  if (told == status || status.empty()) return;
  const auto patched =
      client_.patch({group_type(), options_.ns, name_of(group), "status"}, kube::PatchType::kMerge,
                    {{"metadata", {{"uid", metadata_of(group)["uid"]}}}, {"status", status}});
  if (std::holds_alternative<json>(patched)) told = status;
}

void GangDouble::breach(const char* what, const std::string& name) {
  const std::string text = std::string(what) + " " + name;
  if (breaches_.insert(text).second) std::cerr << "gang-double: " << text << std::endl;
}

}  // namespace lockstep::testing
