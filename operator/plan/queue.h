// Queues: a job with the label kueue.x-k8s.io/queue-name gets its nodes through Kueue, as a group
// of plain pods.
//
// Note [A pod group of Kueue]
// All pods of an attempt are made behind Kueue's scheduling gate, and name their queue, their group
// and its size. Kueue opens the gates of all of them once the queue's quota has room for the group,
// and takes the quota back by deleting the pods.
//   - Attempts that follow each other by restarts share a group, whose quota stays reserved: their
//     pods are replacements. A job that was resumed, scaled, given another template or queue while
//     it waited, or that gave its nodes back, takes a new group. Which one it is stands in the
//     status, recorded with the attempt.
//   - Kueue counts a pod until it has failed, and deletes what is in excess, the newest first. So
//     replacements are made when no older pod of the group may still run. A pod that succeeded, or
//     whose end nobody confirms, is never replaced: then the attempt takes a new group.
//   - Kueue holds pods by a finalizer until they are replaced or the group is over. A group is over
//     when one of its pods says that it is not to be retried and none runs any more. Nobody else
//     says so: else the quota, and the pods, would stay for ever.
// Source: kueue keps/976-plain-pods, pkg/controller/jobs/pod/pod_controller.go.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "operator/plan/plan.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

// Scheduled=False while pods wait behind the gate.
inline constexpr const char* kQueuedReason = "Queued";

// The queue that the job asks for; empty = none.
std::string queue_of(const api::TrainingJob& job);

// True if the attempt was recorded for another queue than the job asks for now.
bool has_other_queue(const Situation& s);

// Records the group of an attempt that begins with `next`, the status to be written.
void join_queue(const Situation& s, api::TrainingJobStatus& next);

// Some pod of the gang waits behind the gate.
bool is_queued(const Gang& gang);

// How long Kueue's webhook may be away before its silence is told: it takes a pod when it is made.
inline constexpr std::chrono::seconds kQueueSilence{60};
// The reason of the event that tells it.
inline constexpr const char* kQueueSilent = "QueueSilent";

// True if pods wait behind the gate that Kueue never took into its keeping: nobody opens it.
bool is_left_alone(const Situation& s);

// What is said of a gang that waits: "waits in queue team: ...".
std::string describe_queue(const Situation& s);

// True while older pods of the group may still run: no pod is made.
bool awaits_group(const Situation& s);

// True if older pods of the group count for ever or ended it, and the attempt has no pod yet.
bool needs_new_group(const Situation& s);
// Gives the attempt another group, before it has pods. Precondition: needs_new_group().
Plan regroup(const Situation& s, Plan next);

// Marks the groups that have no successor any more, so that Kueue lets go of pods and quota: before
// anything is made, for the next group may need that quota.
void end_groups(const Situation& s, Plan& next);

// The same for what a job that is gone has left, once it is in deletion.
std::vector<Action> end_orphaned_groups(const Observation& seen);

// Puts `pod` behind the gate of its group.
//   num_pods: of the attempt.
void put_in_queue(const api::TrainingJob& job, const api::QueueStatus& queue, int64_t num_pods,
                  nlohmann::json& pod);

}  // namespace lockstep::plan
