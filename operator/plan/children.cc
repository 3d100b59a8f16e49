#include "operator/plan/children.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/gang.h"
#include "operator/plan/names.h"
#include "operator/plan/nodes.h"
#include "operator/plan/pod_group.h"
#include "operator/plan/render.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

constexpr seconds kChildDeletionPoll{5};

// The child by that name, or null.
const ChildView* find_child(const std::vector<ChildView>& children, const std::string& name) {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const ChildView& child) { return child.name == name; });
  return found == children.end() ? nullptr : &*found;
}

// The pod that status.firstFailure speaks of, still there to be read.
bool is_evidence(const Situation& s, const PodView& pod) {
  const std::optional<api::FirstFailure>& failure = s.job.status.first_failure;
  return failure && !holds_resources(pod) && pod.name == failure->pod;
}

// The template that the attempt began with: what its ConfigMap keeps, or if there is none yet, what
// the spec says now. See Note [A template is taken once].
nlohmann::json template_of_attempt(const Situation& s, const ChildView* config_map) {
  if (config_map == nullptr) return s.job.spec.pod_template;
  nlohmann::json kept = nlohmann::json::parse(config_map->pod_template, nullptr, false);
  return kept.is_object() ? kept : nlohmann::json();
}

// Before the pods that belong to it, and again if it is gone.
void create_pod_group(const Situation& s, const AttemptSpec& attempt, Plan& next) {
  if (!attempt.gang || s.gang.pods.empty()) return;
  const bool is_complete = std::none_of(s.gang.pods.begin(), s.gang.pods.end(),
                                        [](const PodView* pod) { return pod == nullptr; });
  if (is_complete && !s.seen.lacks_pod_group) return;
  const nlohmann::json pod = render_pod(s.job, attempt, 0, s.settings);
  next.actions.push_back(CreatePodGroup{.name = attempt.gang->pod_group,
                                        .body = render_pod_group(s.job, *attempt.gang, pod)});
}

}  // namespace

seconds grace_of_attempt(const Situation& s) {
  return grace_period(s.job, template_of_attempt(s));
}

nlohmann::json template_of_attempt(const Situation& s) {
  const std::string name = config_map_name(s.job.meta.name, s.job.status.attempt);
  return template_of_attempt(s, find_child(s.seen.config_maps, name));
}

bool has_other_template(const Situation& s) {
  const ChildView* kept =
      find_child(s.seen.config_maps, config_map_name(s.job.meta.name, s.job.status.attempt));
  return kept != nullptr && kept->owner_uid == s.job.meta.uid && !kept->deleting &&
         kept->pod_template != template_text(s.job.spec.pod_template);
}

void requeue_within(Plan& next, seconds delay) {
  const seconds bounded = std::max(delay, seconds(1));
  next.requeue_after = next.requeue_after ? std::min(*next.requeue_after, bounded) : bounded;
}

void delete_pod(Plan& next, const PodView* pod, seconds grace) {
  if (pod == nullptr) return;
  const bool is_forced = pod->node_state == NodeState::kGone && holds_resources(*pod);
  if (pod->deleting && !is_forced) return;
  next.actions.push_back(DeletePod{
      .name = pod->name, .uid = pod->uid, .grace_seconds = is_forced ? 0 : grace.count()});
}

void delete_stale_pods(const Situation& s, Plan& next) {
  for (const PodView* pod : s.gang.stale) {
    if (!is_evidence(s, *pod)) delete_pod(next, pod, kShortGrace);
  }
}

void delete_all_stale_pods(const Situation& s, Plan& next) {
  for (const PodView* pod : s.gang.stale) delete_pod(next, pod, kShortGrace);
}

void delete_old_config_maps(const Situation& s, Plan& next) {
  const std::string& job = s.job.meta.name;
  for (const ChildView& child : s.seen.config_maps) {
    const std::optional<int64_t> attempt = parse_config_map_name(job, child.name);
    if (!attempt || *attempt >= s.job.status.attempt) continue;
    if (child.owner_uid != s.job.meta.uid || child.deleting) continue;
    const bool is_used =
        std::any_of(s.gang.stale.begin(), s.gang.stale.end(), [&](const PodView* pod) {
          const std::optional<PodIdentity> identity = parse_pod_name(job, pod->name);
          return identity && identity->attempt == *attempt && !has_ended(*pod);
        });
    if (!is_used) next.actions.push_back(DeleteConfigMap{.name = child.name, .uid = child.uid});
  }
}

void requeue_for_deletions(const Situation& s, Plan& next) {
  const auto consider = [&](const PodView* pod) {
    if (pod == nullptr || !pod->deleting || !pod->deletion_deadline) return;
    if (is_unreachable(*pod, s.now)) return;
    requeue_within(next, *pod->deletion_deadline - s.now + kUnreachableAfter + seconds(1));
  };
  for (const PodView* pod : s.gang.pods) consider(pod);
  for (const PodView* pod : s.gang.stale) consider(pod);
}

void create_missing(const Situation& s, Plan& next) {
  AttemptSpec attempt = {.number = s.job.status.attempt,
                         .ranks = s.gang.world_size(),
                         .ranks_per_pod = s.gang.ranks_per_pod};
  attempt.queue = s.job.status.queue;
  attempt.gang = s.job.status.gang;
  if (s.settings.avoids_nodes) attempt.avoided_nodes = avoided_nodes(s.job.status);
  const std::string config_map = config_map_name(s.job.meta.name, attempt.number);
  const std::string service = service_name(s.job.meta.name);
  const ChildView* old_config_map = find_child(s.seen.config_maps, config_map);
  const ChildView* old_service = find_child(s.seen.services, service);
  if ((old_config_map != nullptr && old_config_map->deleting) ||
      (old_service != nullptr && old_service->deleting)) {
    requeue_within(next, kChildDeletionPoll);  // its name is free once it is gone
    return;
  }
  attempt.pod_template = template_of_attempt(s, old_config_map);
  if (old_config_map == nullptr) {
    next.actions.push_back(CreateConfigMap{config_map, render_config_map(s.job, attempt)});
  }
  if (old_service == nullptr) {
    next.actions.push_back(CreateService{service, render_service(s.job, s.settings)});
  }
  create_pod_group(s, attempt, next);
  for (std::size_t index = 0; index < s.gang.pods.size(); ++index) {
    if (s.gang.pods[index] != nullptr) continue;
    const int64_t rank = s.gang.first_rank(index);
    next.actions.push_back(
        CreatePod{.name = pod_name(s.job.meta.name, {.attempt = attempt.number, .rank = rank}),
                  .rank = rank,
                  .body = render_pod(s.job, attempt, rank, s.settings)});
  }
}

}  // namespace lockstep::plan
