#include "tests/support/queue_double/queue_double.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>

#include "operator/api/json_read.h"
#include "operator/api/kueue_names.h"

namespace lockstep::testing {

using nlohmann::json;

namespace {

const kube::ResourceType kPods{"", "v1", "pods"};
const kube::ResourceType kWorkloads{api::kKueueGroup, "v1beta2", "workloads"};

json metadata_of(const json& pod) {
  return api::member(pod, "metadata");
}

std::string label(const json& pod, const char* name) {
  return api::text(api::member(metadata_of(pod), "labels"), name);
}

std::string annotation(const json& pod, const char* name) {
  return api::text(api::member(metadata_of(pod), "annotations"), name);
}

std::string phase_of(const json& pod) {
  return api::text(api::member(pod, "status"), "phase");
}

bool is_deleting(const json& pod) {
  return metadata_of(pod).contains("deletionTimestamp");
}

bool has_node(const json& pod) {
  return !api::text(api::member(pod, "spec"), "nodeName").empty();
}

bool is_held(const json& pod) {
  const json finalizers = api::member(metadata_of(pod), "finalizers");
  return std::find(finalizers.begin(), finalizers.end(), api::kQueueFinalizer) != finalizers.end();
}

json other_gates(const json& pod) {
  json others = json::array();
  for (const json& gate : api::member(api::member(pod, "spec"), "schedulingGates")) {
    if (api::text(gate, "name") != api::kQueueGate) others.push_back(gate);
  }
  return others;
}

bool is_gated(const json& pod) {
  const json gates = api::member(api::member(pod, "spec"), "schedulingGates");
  return gates.is_array() && other_gates(pod).size() < gates.size();
}

// In a cluster the collector of pods makes a pod Failed that is deleted before it has a node.
bool has_ended(const json& pod) {
  return phase_of(pod) == "Failed" || phase_of(pod) == "Succeeded" ||
         (is_deleting(pod) && !has_node(pod));
}

// Kueue counts the pod: it may run, runs, or succeeded.
bool is_active(const json& pod) {
  return phase_of(pod) != "Failed" && (has_node(pod) || !is_deleting(pod));
}

// Which of a group's active pods are kept rather: held ones, then those behind no gate, then older
// ones.
bool is_kept_rather(const json* a, const json* b) {
  if (is_held(*a) != is_held(*b)) return is_held(*a);
  if (is_gated(*a) != is_gated(*b)) return !is_gated(*a);
  return api::text(metadata_of(*a), "creationTimestamp") <
         api::text(metadata_of(*b), "creationTimestamp");
}

}  // namespace

QueueDouble::QueueDouble(kube::Client& client, QueueOptions options)
    : client_(client), options_(std::move(options)) {}

void QueueDouble::sync() {
  kube::ListOptions in_groups;
  in_groups.label_selector = api::kPodGroupLabel;
  const auto listed = client_.list({kPods, options_.ns, "", ""}, in_groups, {});
  if (const auto* error = std::get_if<kube::ApiError>(&listed)) {
    std::cerr << "queue-double: list pods: " << error->error.message << std::endl;
    return;
  }
  std::map<std::string, std::vector<const json*>> by_group;
  for (const json& pod : std::get<json>(listed)["items"]) {
    if (!is_held(pod) && !is_deleting(pod) && !has_ended(pod)) mark_managed(pod);
    by_group[label(pod, api::kPodGroupLabel)].push_back(&pod);
  }
  used_ = 0;
  for (const auto& [name, pods] : by_group) {
    const Members members = sort(pods);
    if (groups_[name].is_admitted || members.has_running) used_ += members.total;
  }
  for (const auto& [name, pods] : by_group) sync_group(name, sort(pods));
  for (auto group = groups_.begin(); group != groups_.end();) {
    const auto current = group++;
    if (!by_group.contains(current->first)) forget(current->first);
  }
}

QueueDouble::Members QueueDouble::sort(const std::vector<const json*>& pods) {
  Members members;
  for (const json* pod : pods) {
    (is_active(*pod) ? members.active : members.inactive).push_back(pod);
    members.total = std::stoi(annotation(*pod, api::kPodGroupSize));
    members.queue = label(*pod, api::kQueueLabel);
    if (phase_of(*pod) == "Succeeded") ++members.succeeded;
    if (annotation(*pod, api::kRetriableInGroup) == "false") members.is_marked = true;
    if (phase_of(*pod) == "Running") members.has_running = true;
  }
  std::stable_sort(members.active.begin(), members.active.end(), is_kept_rather);
  return members;
}

bool QueueDouble::is_finished(const Members& members) {
  if (members.succeeded == members.total) return true;
  const auto ended = [](const json* pod) { return has_ended(*pod); };
  return members.is_marked && std::all_of(members.active.begin(), members.active.end(), ended);
}

void QueueDouble::sync_group(const std::string& name, const Members& members) {
  if (is_finished(members)) {
    for (const json* pod : members.active) let_go(*pod);
    for (const json* pod : members.inactive) let_go(*pod);
    if (groups_[name].is_admitted) used_ -= members.total;
    groups_[name].is_admitted = false;
    tell(name, "Finished", true, "the group is over");
    return;
  }
  remove_excess(members);
  const auto num_active = static_cast<int>(members.active.size());
  auto replaced = static_cast<int>(members.inactive.size()) + num_active - members.total;
  for (const json* pod : members.inactive) {
    if (replaced-- > 0) let_go(*pod);
  }
  if (has_order("preempt-" + name)) return evict(name, members);
  if (!groups_[name].is_admitted) admit_if_possible(name, members);
  if (!groups_[name].is_admitted) return;
  for (const json* pod : members.active) {
    if (is_gated(*pod) && is_held(*pod)) open_gate(*pod);
  }
}

void QueueDouble::remove_excess(const Members& members) {
  for (std::size_t i = static_cast<std::size_t>(members.total); i < members.active.size(); ++i) {
    const json& pod = *members.active[i];
    const std::string name = api::text(metadata_of(pod), "name");
    std::cerr << "queue-double: EXCESS POD " << name << std::endl;
    let_go(pod);
    client_.remove({kPods, options_.ns, name, ""}, {});
  }
}

void QueueDouble::admit_if_possible(const std::string& name, const Members& members) {
  if (static_cast<int>(members.active.size()) < members.total || members.has_running) return;
  if (members.queue != options_.queue) return;  // inadmissible: there is no such LocalQueue
  if (has_order("closed")) return tell(name, "QuotaReserved", false, "ClusterQueue is stopped");
  if (used_ + members.total > options_.quota) {
    return tell(name, "QuotaReserved", false,
                "couldn't assign flavors: insufficient unused quota for pods");
  }
  used_ += members.total;
  groups_[name].is_admitted = true;
  tell(name, "Admitted", true, "The workload is admitted");
}

void QueueDouble::evict(const std::string& name, const Members& members) {
  for (const json* pod : members.active) {
    if (is_deleting(*pod) || has_ended(*pod) || is_gated(*pod)) continue;
    client_.remove({kPods, options_.ns, api::text(metadata_of(*pod), "name"), ""}, {});
  }
  groups_[name].is_admitted = false;
  tell(name, "Evicted", true, "Preempted to accommodate a higher priority Workload");
  std::filesystem::remove(std::filesystem::path(options_.orders_dir) / ("preempt-" + name));
}

void QueueDouble::tell(const std::string& name, const char* type, bool holds,
                       const std::string& message) {
  Group& group = groups_[name];
  if (group.told == message) return;
  if (!group.has_workload) {
    const json workload = {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                           {"kind", "Workload"},
                           {"metadata", {{"name", name}}}};
    client_.create({kWorkloads, options_.ns, "", ""}, workload);
    group.has_workload = true;
  }
  const json conditions =
      json::array({{{"type", type}, {"status", holds ? "True" : "False"}, {"message", message}}});
  const auto told = client_.patch({kWorkloads, options_.ns, name, ""}, kube::PatchType::kMerge,
                                  {{"status", {{"conditions", conditions}}}});
  if (std::holds_alternative<json>(told)) group.told = message;
}

void QueueDouble::forget(const std::string& name) {
  client_.remove({kWorkloads, options_.ns, name, ""}, {});
  groups_.erase(name);
}

bool QueueDouble::has_order(const std::string& order) const {
  return std::filesystem::exists(std::filesystem::path(options_.orders_dir) / order);
}

void QueueDouble::mark_managed(const json& pod) {
  json finalizers = api::member(metadata_of(pod), "finalizers");
  if (!finalizers.is_array()) finalizers = json::array();
  finalizers.push_back(api::kQueueFinalizer);
  patch(pod,
        {{"metadata", {{"finalizers", finalizers}, {"labels", {{api::kQueueFinalizer, "true"}}}}}});
}

void QueueDouble::let_go(const json& pod) {
  if (!is_held(pod)) return;
  json finalizers = json::array();
  for (const json& finalizer : api::member(metadata_of(pod), "finalizers")) {
    if (finalizer != api::kQueueFinalizer) finalizers.push_back(finalizer);
  }
  patch(pod, {{"metadata", {{"finalizers", finalizers}}}});
}

void QueueDouble::open_gate(const json& pod) {
  patch(pod, {{"spec", {{"schedulingGates", other_gates(pod)}}}});
}

void QueueDouble::patch(const json& pod, json change) {
  const json metadata = metadata_of(pod);
  change["metadata"]["uid"] = metadata["uid"];
  change["metadata"]["resourceVersion"] = metadata["resourceVersion"];  // what was seen still holds
  const auto patched = client_.patch({kPods, options_.ns, api::text(metadata, "name"), ""},
                                     kube::PatchType::kMerge, change);
  const auto* error = std::get_if<kube::ApiError>(&patched);
  if (error == nullptr || error->error.code == common::ErrorCode::kConflict) return;
  std::cerr << "queue-double: patch " << api::text(metadata, "name") << ": " << error->error.message
            << std::endl;
}

}  // namespace lockstep::testing
