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
  bool deleting = false;  // has a deletionTimestamp
  // The deletionTimestamp itself: when the node must have ended the pod. Empty = unknown.
  std::optional<api::Time> deletion_deadline;
  std::string node;  // empty = not scheduled yet
  std::string pod_ip;
  std::string reason;          // pod status reason, e.g. "Evicted"
  std::string waiting_reason;  // e.g. "ImagePullBackOff"
  std::optional<ContainerExit> exit;
};

// A Service or ConfigMap that has one of our names or our label.
struct ChildView {
  std::string name;
  std::string uid;
  std::string owner_uid;
  bool deleting = false;
};

struct Observation {
  std::vector<PodView> pods;
  std::vector<ChildView> services;
  std::vector<ChildView> config_maps;
  std::optional<api::ProgressStatus> progress;  // latest answer of rank 0 of this attempt
  std::string strategy;                         // as the runtime reported it; empty = unknown
};

// What the installation decides, not the job.
struct Settings {
  std::string runtime_image;  // default image of jobs that name none
  int64_t master_port = 29500;
  int64_t metrics_port = 9400;
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
// Deletes exactly this pod (uid precondition).
struct DeletePod {
  std::string name;
  std::string uid;
  int64_t grace_seconds = 0;
};
struct DeleteConfigMap {
  std::string name;
  std::string uid;
};
using Action = std::variant<CreateConfigMap, CreateService, CreatePod, DeletePod, DeleteConfigMap>;

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
//   - status.restarts is never raised beyond spec.failurePolicy.maxRestarts;
//   - once Succeeded or Failed is True, nothing is ever created again and the status stays;
//   - applying a plan that has actions and planning again at the same time yields no actions and an
//     equal status; plans without actions reach an unchanged status within four rounds.
Plan plan(const api::TrainingJob& job, const Observation& seen, const Settings& settings,
          api::Time now);

}  // namespace lockstep::plan
