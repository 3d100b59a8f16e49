#include "operator/plan/gang.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "operator/api/job_fields.h"
#include "operator/plan/names.h"

namespace lockstep::plan {
namespace {

// A name of the current attempt that another owner has: first the Service, then the ConfigMap.
std::string taken_child(const api::TrainingJob& job, const Observation& seen) {
  const auto is_foreign = [&](const std::string& name) {
    return [&job, name](const ChildView& child) {
      return child.name == name && child.owner_uid != job.meta.uid;
    };
  };
  const std::string service = service_name(job.meta.name);
  if (std::any_of(seen.services.begin(), seen.services.end(), is_foreign(service))) return service;
  const std::string config_map = config_map_name(job.meta.name, job.status.attempt);
  if (std::any_of(seen.config_maps.begin(), seen.config_maps.end(), is_foreign(config_map))) {
    return config_map;
  }
  return {};
}

// Makes room for the recorded world size. Only a status that somebody edited records pods that do
// not divide it: then every rank has a pod of its own.
void size_up(const api::RankCounts& recorded, Gang& gang) {
  const int64_t world_size = std::clamp<int64_t>(recorded.desired, 0, api::kMaxRanks);
  const bool divides = recorded.per_pod >= 1 && world_size % recorded.per_pod == 0;
  gang.ranks_per_pod = divides ? recorded.per_pod : 1;
  gang.pods.resize(static_cast<std::size_t>(world_size / gang.ranks_per_pod));
}

}  // namespace

Gang gather(const api::TrainingJob& job, const Observation& seen) {
  Gang gang;
  size_up(job.status.ranks, gang);
  gang.newest_attempt = job.status.attempt;
  gang.finishes_by_exit_code = job.spec.command.empty();
  gang.taken_name = taken_child(job, seen);
  for (const PodView& pod : seen.pods) {
    const std::optional<PodIdentity> identity = parse_pod_name(job.meta.name, pod.name);
    if (!identity) continue;
    const bool is_current = identity->attempt == job.status.attempt &&
                            identity->rank < gang.world_size() &&
                            identity->rank % gang.ranks_per_pod == 0;
    if (pod.owner_uid != job.meta.uid) {
      const bool is_first = gang.taken_name.empty() || pod.name < gang.taken_name;
      if (is_current && is_first) gang.taken_name = pod.name;
      continue;
    }
    gang.newest_attempt = std::max(gang.newest_attempt, identity->attempt);
    if (is_current) {
      gang.pods[static_cast<std::size_t>(identity->rank / gang.ranks_per_pod)] = &pod;
    } else {
      gang.stale.push_back(&pod);
    }
  }
  return gang;
}

bool has_ended(const PodView& pod) {
  return pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
}

bool has_node(const PodView& pod) {
  return !pod.node.empty() || pod.phase != PodPhase::kPending;
}

bool holds_resources(const PodView& pod) {
  return !has_ended(pod) || pod.lingers;
}

bool is_succeeded(const Gang& gang, const PodView* pod) {
  return pod != nullptr && pod->phase == PodPhase::kSucceeded &&
         (gang.finishes_by_exit_code || !pod->deleting);
}

bool has_succeeded(const Gang& gang) {
  return !gang.pods.empty() &&
         std::all_of(gang.pods.begin(), gang.pods.end(),
                     [&](const PodView* pod) { return is_succeeded(gang, pod); });
}

bool is_scheduled(const Gang& gang) {
  return !gang.pods.empty() &&
         std::all_of(gang.pods.begin(), gang.pods.end(),
                     [](const PodView* pod) { return pod != nullptr && has_node(*pod); });
}

bool is_unreachable(const PodView& pod, api::Time now) {
  if (has_ended(pod)) return false;
  if (pod.node_state == NodeState::kGone) return true;
  return pod.deleting && pod.deletion_deadline && now > *pod.deletion_deadline + kUnreachableAfter;
}

bool has_live_pods(const Gang& gang, api::Time now) {
  const auto is_live = [now](const PodView* pod) {
    if (pod == nullptr || has_ended(*pod) || is_unreachable(*pod, now)) return false;
    return !pod->deleting || has_node(*pod);  // a finalizer may keep what never ran
  };
  return std::any_of(gang.pods.begin(), gang.pods.end(), is_live) ||
         std::any_of(gang.stale.begin(), gang.stale.end(), is_live);
}

}  // namespace lockstep::plan
