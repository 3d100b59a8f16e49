#include "operator/plan/queue.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <variant>

#include "operator/api/kueue_names.h"
#include "operator/plan/attempt.h"
#include "operator/plan/children.h"
#include "operator/plan/gang.h"
#include "operator/plan/names.h"
#include "operator/plan/nodes.h"
#include "operator/plan/status.h"

namespace lockstep::plan {
namespace {

using api::TrainingJobStatus;
using nlohmann::json;

// The attempt takes the place of one that failed, with pods of the same shape: what Kueue compares
// are requests, node selector, affinity and the like.
bool is_replacement(const Situation& s, const TrainingJobStatus& old,
                    const TrainingJobStatus& next) {
  const bool avoids_others = s.settings.avoids_nodes && avoided_nodes(old) != avoided_nodes(next);
  return has_reason(next, kRunning, kRestartingReason) && next.gang_releases == old.gang_releases &&
         next.ranks.desired == old.ranks.desired && !has_other_template(s) && !avoids_others;
}

// Every pod of ours: of the present attempt and of older ones.
std::vector<const PodView*> own_pods(const Gang& gang) {
  std::vector<const PodView*> pods = gang.stale;
  std::copy_if(gang.pods.begin(), gang.pods.end(), std::back_inserter(pods),
               [](const PodView* pod) { return pod != nullptr; });
  return pods;
}

// One pod of each group in `pods` says that it is not to be retried, unless one says so already.
//   keeps: the group that is still needed; empty = none.
std::vector<Action> marks_for(const std::vector<const PodView*>& pods, std::string_view keeps) {
  std::set<std::string_view> marked;
  for (const PodView* pod : pods) {
    if (pod->ends_group) marked.insert(pod->pod_group);
  }
  std::vector<Action> actions;
  for (const PodView* pod : pods) {
    if (!pod->is_held || pod->pod_group.empty() || pod->pod_group == keeps) continue;
    if (!marked.insert(pod->pod_group).second) continue;
    actions.emplace_back(EndPodGroup{.name = pod->name, .uid = pod->uid});
  }
  return actions;
}

std::string group_of(const TrainingJobStatus& status) {
  return status.queue ? status.queue->pod_group : std::string();
}

// The group whose pods are still to run, as the status says that is written: what this plan decides
// may never be. Empty if none are.
std::string group_in_use(const Situation& s) {
  const TrainingJobStatus& status = s.job.status;
  if (is_finished(status) || s.job.meta.deletion_time) return {};
  const bool stops = is_true(status, kSuspended) || is_stopping(status);
  return stops ? std::string() : group_of(status);
}

// One of its pods says that the group is not to be retried: Kueue admits none of it any more.
bool is_over(const Situation& s, std::string_view group) {
  const std::vector<const PodView*> pods = own_pods(s.gang);
  return std::any_of(pods.begin(), pods.end(), [group](const PodView* pod) {
    return pod->ends_group && pod->pod_group == group;
  });
}

// The older pods of the present group that Kueue counts.
struct OlderPods {
  int num_live = 0;  // may still run
  int num_kept = 0;  // succeeded, or nobody confirms their end
};

OlderPods count_older(const Situation& s) {
  OlderPods older;
  const std::optional<api::QueueStatus>& queue = s.job.status.queue;
  if (!queue) return older;
  for (const PodView* pod : s.gang.stale) {
    if (pod->pod_group != queue->pod_group || pod->phase == PodPhase::kFailed) continue;
    if (pod->deleting && !has_node(*pod)) continue;
    const bool is_kept = pod->phase == PodPhase::kSucceeded || is_unreachable(*pod, s.now);
    ++(is_kept ? older.num_kept : older.num_live);
  }
  return older;
}

}  // namespace

std::string queue_of(const api::TrainingJob& job) {
  const auto found = job.meta.labels.find(api::kQueueLabel);
  return found == job.meta.labels.end() ? std::string() : found->second;
}

bool has_other_queue(const Situation& s) {
  const std::optional<api::QueueStatus>& queue = s.job.status.queue;
  return queue_of(s.job) != (queue ? queue->name : std::string());
}

void join_queue(const Situation& s, TrainingJobStatus& next) {
  if (!begins_attempt(s.job.status, next)) return;
  const std::string name = queue_of(s.job);
  if (name.empty()) {
    next.queue.reset();
    return;
  }
  const bool stays = next.queue && next.queue->name == name &&
                     is_replacement(s, s.job.status, next) && !is_over(s, next.queue->pod_group);
  if (!stays) next.queue = api::QueueStatus{name, pod_group_name(s.job, next.attempt)};
}

bool is_queued(const Gang& gang) {
  return std::any_of(gang.pods.begin(), gang.pods.end(), [](const PodView* pod) {
    return pod != nullptr && pod->is_gated && !pod->deleting;
  });
}

bool is_left_alone(const Situation& s) {
  const auto waits_in_vain = [&s](const PodView* pod) {
    return pod != nullptr && pod->is_gated && !pod->is_held && pod->created_at &&
           s.now - *pod->created_at >= kQueueSilence;
  };
  return std::any_of(s.gang.pods.begin(), s.gang.pods.end(), waits_in_vain);
}

std::string describe_queue(const Situation& s) {
  const std::string name = s.job.status.queue ? s.job.status.queue->name : queue_of(s.job);
  const std::string text = "waits in queue " + name + " of Kueue";
  if (!s.seen.queue_word.empty()) return text + ": " + s.seen.queue_word;
  if (!is_left_alone(s)) return text;
  return text + ": Kueue has not taken its pods: namespace " + s.job.meta.ns +
         " is not in its managedJobsNamespaceSelector, or its integration \"pod\" is off";
}

bool awaits_group(const Situation& s) {
  return count_older(s).num_live > 0;
}

bool needs_new_group(const Situation& s) {
  const TrainingJobStatus& status = s.job.status;
  if (status.restart_not_before && s.now < *status.restart_not_before) return false;
  const bool has_pods = std::any_of(s.gang.pods.begin(), s.gang.pods.end(),
                                    [](const PodView* pod) { return pod != nullptr; });
  const OlderPods older = count_older(s);
  const bool is_lost = status.queue && (older.num_kept > 0 || is_over(s, status.queue->pod_group));
  return is_lost && !has_pods && older.num_live == 0 &&
         status.queue->pod_group != pod_group_name(s.job, status.attempt);
}

Plan regroup(const Situation& s, Plan next) {
  next.status.queue->pod_group = pod_group_name(s.job, s.job.status.attempt);
  next.requeue_after = kNextRound;
  return next;
}

void end_groups(const Situation& s, Plan& next) {
  const TrainingJobStatus& old = s.job.status;
  const bool ends_now = is_finished(next.status) && !is_finished(old);
  const bool moves = group_of(next.status) != group_of(old) || next.status.gang != old.gang;
  if (ends_now || moves || begins_attempt(old, next.status)) return;  // the status first
  if (is_true(next.status, kSucceeded)) return;                       // Kueue sees that itself
  // What a job of the same name has left, and nobody else looks after.
  std::vector<const PodView*> pods = own_pods(s.gang);
  for (const PodView& pod : s.seen.pods) {
    if (pod.owner_uid != s.job.meta.uid && pod.deleting) pods.push_back(&pod);
  }
  std::vector<Action> marks = marks_for(pods, group_in_use(s));
  const auto first_creation =
      std::find_if(next.actions.begin(), next.actions.end(), [](const Action& action) {
        return std::holds_alternative<CreateConfigMap>(action) ||
               std::holds_alternative<CreateService>(action) ||
               std::holds_alternative<CreatePodGroup>(action) ||
               std::holds_alternative<CreatePod>(action);
      });
  next.actions.insert(first_creation, std::make_move_iterator(marks.begin()),
                      std::make_move_iterator(marks.end()));
}

std::vector<Action> end_orphaned_groups(const Observation& seen) {
  std::vector<const PodView*> pods;
  pods.reserve(seen.pods.size());
  for (const PodView& pod : seen.pods) {
    if (pod.deleting) pods.push_back(&pod);  // else the job may only not be seen yet
  }
  return marks_for(pods, "");
}

void put_in_queue(const api::TrainingJob& job, const api::QueueStatus& queue, int64_t num_pods,
                  json& pod) {
  json& metadata = pod["metadata"];
  metadata["labels"][api::kQueueLabel] = queue.name;
  metadata["labels"][api::kPodGroupLabel] = queue.pod_group;
  const auto priority = job.meta.labels.find(api::kPriorityClassLabel);
  if (priority != job.meta.labels.end()) {
    metadata["labels"][api::kPriorityClassLabel] = priority->second;
  }
  metadata["annotations"][api::kPodGroupSize] = std::to_string(num_pods);
  json& gates = pod["spec"]["schedulingGates"];
  if (!gates.is_array()) gates = json::array();
  gates.push_back({{"name", api::kQueueGate}});
}

}  // namespace lockstep::plan
