// plan(): from a job and what was observed of it to what is to be done. Pure: no I/O, no clock,
// never throws. The operator's reconciler and `lockstep run` carry out the very same plans.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"

namespace lockstep::plan {

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

// What the API server tells of a pod's node. kUnknown: nodes are not watched, or the pod has none.
enum class NodeState { kUnknown, kReady, kUnready, kGone };

struct ContainerExit {
  int64_t exit_code = 0;
  std::string reason;   // e.g. "OOMKilled", "Error"
  std::string message;  // termination message
  api::Time finished_at{};
};

// A pod that carries the job's name label, whoever owns it.
struct PodView {
  std::string name;
  std::string uid;
  std::string owner_uid;  // controller owner; empty = none
  // From the labels, for display; -1 = absent or not a number. plan() goes by the name, which
  // cannot be edited.
  int64_t attempt = -1;
  int64_t rank = -1;
  PodPhase phase = PodPhase::kPending;
  bool ready = false;
  bool lingers = false;   // the rank has ended, containers beside it have not
  bool deleting = false;  // has a deletionTimestamp
  // The deletionTimestamp itself: when the node must have ended the pod. Empty = unknown.
  std::optional<api::Time> deletion_deadline;
  std::string node;                     // empty = not scheduled yet
  std::optional<api::Time> bound_at{};  // when it got its node; empty = unknown
  std::optional<api::Time> created_at{};
  NodeState node_state = NodeState::kUnknown;
  std::string pod_ip;
  std::string reason;          // pod status reason, e.g. "Evicted"
  std::string waiting_reason;  // e.g. "ImagePullBackOff"
  // Of a queue (queue.h).
  bool is_gated = false;    // waits behind the queue's gate
  std::string pod_group{};  // empty = in no queue
  bool is_held = false;     // until the queue lets go of it
  bool ends_group = false;  // says that its group is not to be retried
  std::optional<ContainerExit> exit;
};

// A Service or ConfigMap that has one of our names or our label.
struct ChildView {
  std::string name;
  std::string uid;
  std::string owner_uid;
  bool deleting = false;
  std::string pod_template{};  // of a ConfigMap: the template that its attempt began with; or empty
};

// What a running rank of the current attempt answered when it was asked.
struct Pulse {
  int64_t rank = 0;
  // Since its last finished step or change of phase. Nothing = it does not answer.
  std::optional<std::chrono::seconds> age;
  int64_t step = 0;
  // Of `age`, what it said itself when it answered last; the rest is time that went by since.
  // Nothing = all of it.
  std::optional<std::chrono::seconds> told{};
};

// A rank that was the slowest again and again.
struct Lag {
  int64_t rank = 0;
  double ratio = 0;  // of its step time to the median
};

// Which pod groups of schedulers the API server serves, in versions that we speak.
struct GangApis {
  bool is_known = true;  // else all that follows means nothing
  bool coscheduling = false;
  bool volcano = false;
  bool native = false;
  // Versions of Kubernetes' own group that are served, and that we do not speak.
  std::vector<std::string> ignored{};
  std::string trouble{};  // why the API server does not tell; empty = it does
  bool operator==(const GangApis&) const = default;
};

struct Observation {
  std::vector<PodView> pods;
  std::vector<ChildView> services;
  std::vector<ChildView> config_maps;
  std::optional<api::ProgressStatus> progress;  // latest answer of rank 0 of this attempt
  std::string strategy;                         // as the runtime reported it; empty = unknown
  std::vector<Pulse> pulses;                    // of every rank that was asked
  std::optional<Lag> straggler;
  std::string queue_word;         // why the queue lets the gang wait; empty = it does not say
  GangApis gang_apis;             // read only before an attempt has pods
  std::string gang_word;          // why its scheduler lets the gang wait; empty = it does not say
  bool lacks_pod_group = false;   // the attempt's pod group is not there any more
  bool knows_stragglers = false;  // else that there is no `straggler` means nothing
};

// What the installation decides, not the job.
struct Settings {
  std::string runtime_image;        // of jobs that name none
  std::string gpu_runtime_image{};  // of those of them that ask for GPUs; empty: runtime_image
  int64_t master_port = 29500;
  int64_t metrics_port = 9400;
  bool avoids_nodes = true;  // false where there is only one: on a laptop
};

struct CreateConfigMap {
  std::string name;
  nlohmann::json body;
};
struct CreateService {
  std::string name;
  nlohmann::json body;
};
struct CreatePod {
  std::string name;
  int64_t rank = 0;
  nlohmann::json body;
};
// Creates the group that a scheduler makes a gang of, or brings ours up to date (pod_group.h).
struct CreatePodGroup {
  std::string name;
  nlohmann::json body;
};
// Deletes it, if it is ours.
struct DeletePodGroup {
  std::string name;
  std::string api_version;
};
// Deletes exactly this pod (uid precondition). Grace 0 forces, and is for pods whose node is gone.
struct DeletePod {
  std::string name;
  std::string uid;
  int64_t grace_seconds = 0;
};
// Says on a pod that its group is not to be retried, so that the queue lets go of it (queue.h).
struct EndPodGroup {
  std::string name;
  std::string uid;
};
struct DeleteConfigMap {
  std::string name;
  std::string uid;
};
// Deletes the job itself, if it is still the one that was planned for.
struct DeleteJob {
  std::string uid;
  std::string resource_version;
};
using Action = std::variant<CreateConfigMap, CreateService, CreatePodGroup, CreatePod, DeletePod,
                            EndPodGroup, DeletePodGroup, DeleteConfigMap, DeleteJob>;

struct Event {
  bool warning = false;
  std::string reason;
  std::string message;
};

struct Plan {
  std::vector<Action> actions;    // in order; consecutive CreatePod may run in parallel
  api::TrainingJobStatus status;  // to be written if it differs
  std::vector<Event> events;      // emitted after the status is written
  std::optional<std::chrono::seconds> requeue_after;
};

// The next plan of `job`. Whoever carries it out applies `actions` in order, writes `status` if it
// differs, emits `events`, and plans again as soon as anything that it observes changes, its own
// writes included; at the latest after `requeue_after`.
//
// Invariants (held by tests/operator/plan/plan_property_test.cc):
//   - either an attempt begins (status only) or objects are touched, never both;
//   - objects whose owner_uid is not the job's are never touched;
//   - a gang gives its nodes back only if it holds some, lacks others and was never whole; that
//     costs no restart;
//   - a restart is charged only while status.budget.used is below failurePolicy.maxRestarts, and
//     used goes back only when there is a newer checkpoint;
//   - a deletion is forced only if the pod's node is gone;
//   - the job itself is deleted only when it has finished and its time to live is over;
//   - a job that somebody else manages is left alone;
//   - the seconds of status.goodput add up to the time that went by;
//   - once Succeeded or Failed is True, nothing is ever created again and the status stays;
//   - applying a plan that has actions and planning again at the same time yields no actions and an
//     equal status, but for the end of a pod group, after which things go on at once; plans without
//     actions reach an unchanged status within four rounds.
Plan plan(const api::TrainingJob& job, const Observation& seen, const Settings& settings,
          api::Time now);

}  // namespace lockstep::plan
