// One job, its children, the operator and its caches as small numbers: a state that a model checker
// can copy, compare and keep by the million.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/plan.h"
#include "tests/support/object_table.h"

namespace lockstep::plan {

inline constexpr int64_t kStranger = -1;  // owner of objects that are nobody's child

struct PodType {
  struct Key {
    int attempt = 0, rank = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Spec {
    int64_t owner = 0;  // UID of the job
    int world_size = 0;
    int per_pod = 1;       // ranks
    int pod_template = 0;  // number of the template that it was made from
    int node = 0;          // 0 = not scheduled
    int bound_ago = 0;     // seconds
    bool operator==(const Spec&) const = default;
  };
  struct Status {
    PodPhase phase = PodPhase::kPending;
    int exit_code = 0;
    int ended_ago = 0;  // seconds
    bool operator==(const Status&) const = default;
  };
  static constexpr bool kNeedsVersion = false;
  static constexpr bool kHasGeneration = true;
  static constexpr bool kCountsSpecChanges = false;  // the only one is the binding
  static int64_t grace_seconds(const support::Object<PodType>& pod, std::optional<int64_t> wish) {
    const bool has_ended =
        pod.status.phase == PodPhase::kSucceeded || pod.status.phase == PodPhase::kFailed;
    return pod.spec.node == 0 || has_ended ? 0 : wish.value_or(30);
  }
};

// A Service, or the ConfigMap of an attempt.
struct ChildType {
  struct Key {
    bool is_service = false;
    int attempt = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Spec {
    int64_t owner = 0;
    int pod_template = 0;  // that a ConfigMap keeps
    bool operator==(const Spec&) const = default;
  };
  using Status = Spec;
  static constexpr bool kNeedsVersion = false;
  static constexpr bool kHasGeneration = false;
  static constexpr bool kCountsSpecChanges = false;
  static int64_t grace_seconds(const support::Object<ChildType>&, std::optional<int64_t>) {
    return 0;
  }
};

struct JobType {
  using Key = int;  // always 0: there is one
  struct Spec {
    bool suspend = false;
    int ranks = 3;
    int per_pod = 1;
    int pod_template = 0;  // 0 = none
    bool operator==(const Spec&) const = default;
  };
  using Status = int;  // number of a status in the planner
  static constexpr bool kNeedsVersion = true;
  static constexpr bool kHasGeneration = true;
  static constexpr bool kCountsSpecChanges = true;
  static int64_t grace_seconds(const support::Object<JobType>&, std::optional<int64_t>) {
    return 0;
  }
};

// The objects of one type, and what a watch has told the operator of them.
template <typename Type>
struct Watched {
  struct News {
    support::Change change = support::Change::kNothing;
    support::Object<Type> item;
  };
  support::ObjectTable<Type> server;
  std::vector<News> under_way;  // in order; not delivered yet
  support::ObjectTable<Type> cache;
  int64_t cache_version = 0;
};

// One write of the operator.
struct Step {
  enum Kind : uint8_t {
    kCreateMap,
    kCreateService,
    kCreateGroup,
    kCreatePod,
    kDeletePod,
    kDeleteGroup,
    kDeleteMap,
    kStatus
  };
  Kind kind = kStatus;
  PodType::Key pod;  // the attempt alone for a ConfigMap, or in the name of a group
  int group = -1;    // of a pod to be created: the attempt in its group's name; -1 = none
  int world_size = 0;
  int per_pod = 1;
  int pod_template = 0;  // of a pod or ConfigMap to be created
  int64_t grace = 0;
  int status = 0;
  int64_t job_uid = 0;
  int64_t uid = 0, version = 0;  // preconditions
};

// What the operator's process knows besides its caches. All of it is lost in a crash.
struct OperatorMemory {
  bool is_queued = true;
  int wake_in = -1;  // seconds; -1 = never
  int64_t written_job = 0, written_pods = 0, written_children = 0;
  // The reconcile under way.
  bool is_busy = false;
  bool has_failed = false;
  std::vector<Step> todo;
  int requeue_after = 0;  // of its plan; 0 = not at all
  int64_t created_pods = 0, created_children = 0;
};

// How many disturbances a path may still have.
struct Allowance {
  int edits = 0;     // of the user: suspend, scale, delete, delete and create again
  int reshapes = 0;  // of the user: another template, or while suspended other ranks per pod
  int breaks = 0;    // failing ranks, evictions, a lost node, a stranger who takes a name
  int crashes = 0;   // of the operator, and answers that never arrive
};

// The PodGroup of a scheduler, which never changes. No watch tells of it.
struct GangGroup {
  int64_t owner = 0;
  int attempt = 0;  // in its name
  int pods = 0;
  bool operator==(const GangGroup&) const = default;
};

struct State {
  support::Counters counters;
  JobType::Spec first_spec;  // with which the job is created
  Watched<JobType> jobs;
  Watched<PodType> pods;
  Watched<ChildType> children;
  std::vector<GangGroup> groups;  // of the job, while it exists
  bool node_2_gone = false, operator_knows_node_2_gone = false;
  OperatorMemory memory;
  std::optional<Step> limbo;  // sent by an operator that died; done whenever the server likes
  Allowance left;
  int failures = 0;  // exits that may be charged
};

// Equal for states that differ only in the numbers that versions and UIDs happen to have. Without
// the allowance, states are also equal if they differ in what may still happen to them.
std::string fingerprint(const State& state, bool with_allowance);

}  // namespace lockstep::plan
