#include "operator/controller/projection.h"

#include <charconv>
#include <utility>

#include "operator/api/codec.h"
#include "operator/api/kueue_names.h"
#include "operator/plan/names.h"
#include "operator/plan/render.h"

namespace lockstep::control {

using nlohmann::json;

namespace {

const json kEmptyObject = json::object();
const json kEmptyArray = json::array();

const json& object_at(const json& parent, const char* key) {
  const auto found = parent.find(key);
  return found != parent.end() && found->is_object() ? *found : kEmptyObject;
}

const json& array_at(const json& parent, const char* key) {
  const auto found = parent.find(key);
  return found != parent.end() && found->is_array() ? *found : kEmptyArray;
}

std::string text_at(const json& parent, const char* key) {
  const auto found = parent.find(key);
  return found != parent.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int64_t number_label(const json& metadata, const char* label) {
  const std::string text = text_at(object_at(metadata, "labels"), label);
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

std::string controller_uid(const json& metadata) {
  for (const json& owner : array_at(metadata, "ownerReferences")) {
    if (owner.value("controller", false)) return text_at(owner, "uid");
  }
  return "";
}

plan::PodPhase phase_of(const std::string& phase) {
  if (phase == "Pending" || phase.empty()) return plan::PodPhase::kPending;
  if (phase == "Running") return plan::PodPhase::kRunning;
  if (phase == "Succeeded") return plan::PodPhase::kSucceeded;
  if (phase == "Failed") return plan::PodPhase::kFailed;
  return plan::PodPhase::kUnknown;
}

// Why the container in `status` waits; empty if it does not.
std::string waiting_reason(const json& container) {
  return text_at(object_at(object_at(container, "state"), "waiting"), "reason");
}

// A rank runs and ends with its own container, whatever the containers beside it do: one that does
// not start keeps the pod's phase at Pending, one that goes on at Running, one that failed makes it
// Failed.
void read_end_beside_others(int64_t exit_code, plan::PodView& view) {
  view.lingers = view.phase == plan::PodPhase::kRunning || view.phase == plan::PodPhase::kPending;
  if (view.lingers) {
    view.phase = exit_code == 0 ? plan::PodPhase::kSucceeded : plan::PodPhase::kFailed;
  } else if (view.phase == plan::PodPhase::kFailed && exit_code == 0 && view.reason.empty()) {
    view.phase = plan::PodPhase::kSucceeded;
  }
}

// The state of the container `trainer`, or of the first one of a pod of somebody else's making.
void read_container(const json& status, plan::PodView& view) {
  const json& containers = array_at(status, "containerStatuses");
  if (containers.empty()) return;
  const json* container = &containers.front();
  for (const json& candidate : containers) {
    if (text_at(candidate, "name") == "trainer") container = &candidate;
  }
  view.ready = container->value("ready", false);
  view.waiting_reason = waiting_reason(*container);
  const json& state = object_at(*container, "state");
  if (view.phase == plan::PodPhase::kPending && state.contains("running")) {
    view.phase = plan::PodPhase::kRunning;
  }
  const json& terminated = object_at(state, "terminated");
  if (terminated.empty()) return;
  if (containers.size() > 1) read_end_beside_others(terminated.value("exitCode", int64_t{0}), view);
  plan::ContainerExit exit;
  exit.exit_code = terminated.value("exitCode", int64_t{0});
  exit.reason = text_at(terminated, "reason");
  exit.message = text_at(terminated, "message");
  exit.finished_at = api::parse_time(text_at(terminated, "finishedAt")).value_or(api::Time{});
  view.exit = std::move(exit);
}

// What holds a pod up before its container's turn: no node, or an init container that waits.
void read_obstacle(const json& status, plan::PodView& view) {
  for (const json& container : array_at(status, "initContainerStatuses")) {
    const std::string reason = waiting_reason(container);
    if (!reason.empty() && reason != "PodInitializing") view.waiting_reason = reason;
  }
  for (const json& condition : array_at(status, "conditions")) {
    const bool holds = text_at(condition, "status") == "True";
    const std::string type = text_at(condition, "type");
    if (type == "PodScheduled" && !holds) view.waiting_reason = text_at(condition, "reason");
    if (type == "PodScheduled" && holds) {
      view.bound_at = api::parse_time(text_at(condition, "lastTransitionTime"));
    }
    // An eviction through the API or by a taint leaves the pod's own reason empty.
    if (type == "DisruptionTarget" && holds && view.reason.empty()) view.reason = type;
  }
}

// What a queue does with the pod.
void read_queue(const json& pod, plan::PodView& view) {
  const json& metadata = pod.at("metadata");
  view.pod_group = text_at(object_at(metadata, "labels"), api::kPodGroupLabel);
  if (view.pod_group.empty()) return;
  view.ends_group = text_at(object_at(metadata, "annotations"), api::kRetriableInGroup) == "false";
  for (const json& finalizer : array_at(metadata, "finalizers")) {
    if (finalizer == api::kQueueFinalizer) view.is_held = true;
  }
  for (const json& gate : array_at(object_at(pod, "spec"), "schedulingGates")) {
    if (text_at(gate, "name") == api::kQueueGate) view.is_gated = true;
  }
}

}  // namespace

std::string job_index(const kube::ObjectKey& job) {
  return kube::to_string(job);
}

std::optional<kube::ObjectKey> job_of(const json& child) {
  const json& metadata = child.at("metadata");
  const std::string job = text_at(object_at(metadata, "labels"), plan::kJobNameLabel);
  if (job.empty()) return std::nullopt;
  return kube::ObjectKey{text_at(metadata, "namespace"), job};
}

plan::ChildView child_view(const json& object) {
  const json& metadata = object.at("metadata");
  return {text_at(metadata, "name"), text_at(metadata, "uid"), controller_uid(metadata),
          metadata.contains("deletionTimestamp"),
          text_at(object_at(object, "data"), plan::kTemplateKey)};
}

std::optional<ObservedChild> project_child(const json& object) {
  const std::optional<kube::ObjectKey> job = job_of(object);
  if (!job) return std::nullopt;
  return ObservedChild{job_index(*job), child_view(object)};
}

ObservedNode project_node(const json& object) {
  for (const json& condition : array_at(object_at(object, "status"), "conditions")) {
    if (text_at(condition, "type") == "Ready") return {text_at(condition, "status") == "True"};
  }
  return {false};
}

std::optional<ObservedPod> project_pod(const json& object) {
  const std::optional<kube::ObjectKey> job = job_of(object);
  if (!job) return std::nullopt;
  const json& metadata = object.at("metadata");
  const json& status = object_at(object, "status");
  plan::PodView view;
  view.name = text_at(metadata, "name");
  view.uid = text_at(metadata, "uid");
  view.owner_uid = controller_uid(metadata);
  view.attempt = number_label(metadata, plan::kAttemptLabel);
  view.rank = number_label(metadata, plan::kRankLabel);
  view.phase = phase_of(text_at(status, "phase"));
  view.deleting = metadata.contains("deletionTimestamp");
  view.deletion_deadline = api::parse_time(text_at(metadata, "deletionTimestamp"));
  view.node = text_at(object_at(object, "spec"), "nodeName");
  view.created_at = api::parse_time(text_at(metadata, "creationTimestamp"));
  view.pod_ip = text_at(status, "podIP");
  view.reason = text_at(status, "reason");
  read_container(status, view);
  read_obstacle(status, view);
  read_queue(object, view);
  if (!view.node.empty() && !view.bound_at) {  // made with its node's name in it
    view.bound_at = view.created_at;
  }
  return ObservedPod{job_index(*job), std::move(view), kube::version_of(object)};
}

}  // namespace lockstep::control
