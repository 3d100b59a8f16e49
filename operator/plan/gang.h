// The pods of a job, sorted: which hold ranks of the current attempt, which are left over, which
// names are taken by others.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/plan/plan.h"

namespace lockstep::plan {

// Pointers borrow from the Observation that the gang was gathered from.
struct Gang {
  std::vector<const PodView*> pods;   // by index; null = no pod of ours
  int64_t ranks_per_pod = 1;          // pod i holds ranks i * ranks_per_pod and those after it
  std::vector<const PodView*> stale;  // ours, of another attempt or beyond the world size
  int64_t newest_attempt = 0;         // the highest that any pod of ours belongs to
  std::string taken_name;             // a name that we need and another owner has; or empty
  bool finishes_by_exit_code = true;  // see is_succeeded()

  int64_t world_size() const { return num_pods() * ranks_per_pod; }
  int64_t num_pods() const { return static_cast<int64_t>(pods.size()); }
  // The first rank of the pod at `index`.
  int64_t first_rank(std::size_t index) const {
    return static_cast<int64_t>(index) * ranks_per_pod;
  }
  // The pod that holds `rank`, which is less than world_size(); null = none of ours.
  const PodView* pod_of(int64_t rank) const {
    return pods[static_cast<std::size_t>(rank / ranks_per_pod)];
  }
};

// Sorts what was seen for the job's current attempt and its recorded world size. Goes by name
// and owner; pods of ours with a name that plan() never gives are left alone.
Gang gather(const api::TrainingJob& job, const Observation& seen);

// The rank's processes are gone, whatever became of the object.
bool has_ended(const PodView& pod);
// It was given a node, whatever became of it since.
bool has_node(const PodView& pod);
// It holds what its node gave it: processes of its own, or containers beside a rank that ended.
bool holds_resources(const PodView& pod);
// True if the pod's ranks finished their work. A user's own program that was told to stop may well
// exit 0 without having finished, so there a pod being deleted does not count; lockstep-runtime
// exits 0 only at the end.
bool is_succeeded(const Gang& gang, const PodView* pod);
// Every pod succeeded.
bool has_succeeded(const Gang& gang);
// Every rank has a pod, and every pod was given a node.
bool is_scheduled(const Gang& gang);

// How long after its deadline a pod in deletion is given up: a node that lives confirms at once.
inline constexpr std::chrono::seconds kUnreachableAfter{30};

// True if nobody will confirm the pod's end: its node is gone, or its deletion is long overdue.
bool is_unreachable(const PodView& pod, api::Time now);
// True while a pod of ours may still run. Unreachable ones do not count.
bool has_live_pods(const Gang& gang, api::Time now);

}  // namespace lockstep::plan
