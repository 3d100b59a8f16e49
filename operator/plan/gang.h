// The pods of a job, sorted: which are ranks of the current attempt, which are left over, which
// names are taken by others.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/plan/plan.h"

namespace lockstep::plan {

// Pointers borrow from the Observation that the gang was gathered from.
struct Gang {
  std::vector<const PodView*> ranks;  // by rank; null = no pod of ours
  std::vector<const PodView*> stale;  // ours, of another attempt or beyond the world size
  int64_t newest_attempt = 0;         // the highest that any pod of ours belongs to
  std::string taken_name;             // a name that we need and another owner has; or empty
  bool finishes_by_exit_code = true;  // see is_succeeded()

  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
};

// Sorts what was seen for the job's current attempt and its recorded world size. Goes by name
// and owner; pods of ours with a name that plan() never gives are left alone.
Gang gather(const api::TrainingJob& job, const Observation& seen);

// The rank's processes are gone, whatever became of the object.
bool has_ended(const PodView& pod);
// It holds what its node gave it: processes of its own, or containers beside a rank that ended.
bool holds_resources(const PodView& pod);
// True if the rank finished its work. A user's own program that was told to stop may well exit 0
// without having finished, so there a pod being deleted does not count; lockstep-runtime exits 0
// only at the end.
bool is_succeeded(const Gang& gang, const PodView* pod);
// Every rank succeeded.
bool has_succeeded(const Gang& gang);
// Every rank has a pod that was given a node.
bool is_scheduled(const Gang& gang);

// How long after its deadline a pod in deletion is given up: a node that lives confirms at once.
inline constexpr std::chrono::seconds kUnreachableAfter{30};

// True if nobody will confirm the pod's end: its node is gone, or its deletion is long overdue.
bool is_unreachable(const PodView& pod, api::Time now);
// True while a pod of ours may still run. Unreachable ones do not count.
bool has_live_pods(const Gang& gang, api::Time now);

}  // namespace lockstep::plan
