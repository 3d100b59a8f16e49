// What a plan may do about the pod groups of a queue.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <variant>

#include "operator/plan/plan.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {

// Empty if `mark` ends a group that Kueue holds and nobody needs, as the status says that is
// written; else what is wrong with it.
inline std::string fault_of_mark(const EndPodGroup& mark, const ModelCluster& before) {
  const api::TrainingJob& job = before.job;
  const auto pod = std::find_if(before.seen.pods.begin(), before.seen.pods.end(),
                                [&](const PodView& each) { return each.name == mark.name; });
  if (pod == before.seen.pods.end() || pod->uid != mark.uid) return "marks a pod that is not there";
  const bool may = pod->deleting || pod->owner_uid == job.meta.uid;
  if (!may || !pod->is_held || pod->ends_group) return "marks a pod that it should not";
  const bool is_over = is_finished(job.status) || is_true(job.status, kSuspended) ||
                       is_stopping(job.status) || job.meta.deletion_time;
  const bool is_present = job.status.queue && job.status.queue->pod_group == pod->pod_group;
  return is_present && !is_over ? "ends a group that is in use" : "";
}

// The same of the groups that schedulers know: one is made for the recorded attempt, before its
// pods, and ends once it is recorded no more.
inline std::string fault_of_gang(const Plan& next, const ModelCluster& before) {
  const std::optional<api::GangStatus>& old = before.job.status.gang;
  bool has_pod = false;
  for (const Action& action : next.actions) {
    has_pod = has_pod || std::holds_alternative<CreatePod>(action);
    if (const auto* group = std::get_if<CreatePodGroup>(&action)) {
      if (!old || old->pod_group != group->name) return "makes a group that is not recorded";
      if (has_pod) return "makes the group after its pods";
    }
    if (const auto* group = std::get_if<DeletePodGroup>(&action)) {
      if (!old || old->pod_group != group->name) return "ends a group that is not recorded";
      if (next.status.gang == old) return "ends the group of an attempt that goes on";
    }
  }
  const bool is_left_alone = is_finished(before.job.status) || before.job.meta.deletion_time ||
                             next.status == before.job.status;
  if (is_left_alone || next.status.attempt != before.job.status.attempt) return "";
  const bool is_over = is_finished(next.status) || is_true(next.status, kSuspended);
  return is_over && next.status.gang ? "keeps the group of a job that is over" : "";
}

inline bool ends_gang(const Plan& plan) {
  return std::any_of(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    return std::holds_alternative<DeletePodGroup>(action);
  });
}

// Replacements wait for the end of the pod: it is of the group that the attempt is in.
inline bool counts_in_group(const PodView& pod, const api::TrainingJobStatus& status) {
  return status.queue && pod.pod_group == status.queue->pod_group;
}

inline bool only_ends_groups(const Plan& plan) {
  return std::all_of(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    return std::holds_alternative<EndPodGroup>(action);
  });
}

}  // namespace lockstep::plan
