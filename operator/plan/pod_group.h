// Gangs of schedulers that know them: coscheduling, Volcano and Kubernetes' own Workload API.
//
// Note [A pod group of a scheduler]
// Such a scheduler gives nodes to all pods of a group or to none. The group is an object, PodGroup,
// that says how many pods belong together; each pod names it.
//   - Which scheduler it is follows from spec.scheduling.gangScheduler, or with `auto` from what
//     the API server serves and from the template's schedulerName. What the answer was stands in
//     the status, recorded before the group and the pods are made from it.
//   - The group is made before the pods, and belongs to the job. Attempts that follow each other by
//     restarts or by scaling keep it: it is brought up to date when pods are made. Kubernetes' own
//     never changes, so there another number of pods takes a new group.
//   - A job that is suspended or has ended has no group: its scheduler would keep room for it. So
//     one that is resumed has a new one.
//   - A scheduler that is asked for by name and that the cluster lacks is told; no pod is made.
//   - Half a gang gives its nodes back as ever (half_gang.h), whatever its scheduler promised.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "operator/plan/plan.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

// Scheduled=False while a gang waits for a scheduler that gives nodes to all of its pods at once.
inline constexpr const char* kGangWaits = "WaitingForGang";
// Scheduled=False, and the event, where the cluster lacks the scheduler that the job names.
inline constexpr const char* kGangSchedulerMissing = "GangSchedulerMissing";

// Which scheduler makes a gang of the job's pods.
struct GangChoice {
  enum class Kind { kNone, kGroup, kMissing, kUnknown };
  Kind kind = Kind::kNone;
  api::GangScheduler scheduler = api::GangScheduler::kNone;  // of kGroup
  std::string missing;                                       // of kMissing: what is, for people
};

// `apis`: what the API server serves. kUnknown: that is not known, and it counts.
GangChoice choose_gang(const api::TrainingJob& job, const nlohmann::json& pod_template,
                       const GangApis& apis);

// Every API that we speak, as if the API server served it: to show what a job would be made of.
GangApis all_gang_apis();

// "scheduling.volcano.sh/v1beta1"
std::string pod_group_version(api::GangScheduler scheduler);

// Records the group of an attempt that begins with `next`, for a job that has none.
void join_gang(const Situation& s, api::TrainingJobStatus& next);

// True if the attempt has no pod yet and is to have another group, or another size of it, than is
// recorded.
bool needs_other_gang(const Situation& s);
// Records it, and deletes the old group if it has another name. Precondition: needs_other_gang().
Plan change_gang(const Situation& s, Plan next);

// How soon to look again while no pod may be made, because the scheduler is missing or not known
// yet; nothing = pods may be made.
std::optional<std::chrono::seconds> gang_scheduler_wait(const Situation& s);

// Says in condition and message which scheduler the gang waits for, or that it is missing.
void tell_gang(const Situation& s, Plan& next);

// A job that is suspended or has ended gives its group up.
void end_gang(const Situation& s, Plan& next);

// The group of an attempt whose pods are like `pod`.
nlohmann::json render_pod_group(const api::TrainingJob& job, const api::GangStatus& gang,
                                const nlohmann::json& pod);

// Makes `pod` a member of the group.
void put_in_gang(const api::GangStatus& gang, nlohmann::json& pod);

}  // namespace lockstep::plan
