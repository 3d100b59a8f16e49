// Carries out a plan's actions on the API server. Every action may be repeated: names are
// deterministic and deletions name the object's UID, so a lost answer costs nothing.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"
#include "runtime/common/result.h"

namespace lockstep::control {

enum class ChildKind { kPod, kService, kConfigMap };

// An object of another owner that holds a name which a job needs.
struct TakenName {
  ChildKind kind = ChildKind::kPod;
  plan::ChildView object;
};

struct ApplyOutcome {
  common::Result<void> result;                      // the first failure
  std::optional<std::chrono::seconds> retry_after;  // the server's wish with that failure (429)
  std::vector<TakenName> taken_names;               // found on the way
  int applied = 0;                                  // actions that changed something
  // What the server warned of while it created objects, each text once.
  kube::Warnings warnings;
  // The newest resource version among the objects created, by kind. Until the watch has told of it,
  // the stores lack something of ours.
  std::map<ChildKind, std::string> created_versions;
};

// Applies in order and stops at the first failure; consecutive CreatePod actions run in parallel,
// in batches that double from one (a job whose pods are all refused costs one request). An object
// that exists already under our owner counts as applied; a deletion of what is gone too. An object
// of another owner that carries the job's own label is kConflict and no taken name: the stores will
// tell of it, and of its end.
ApplyOutcome apply_in_order(kube::Client& client, const api::TrainingJob& job,
                            const std::vector<plan::Action>& actions);

// True if nothing can be created or written any more because the job, or its namespace, is going or
// gone. Repeating the call is useless; the watch tells of the job's end.
bool is_ending(const common::Error& error);

// Writes `status` if the object's resource version is still `job`'s. Returns the new version.
// kConflict: the job has changed meanwhile; plan again from its newer state.
kube::ApiResult<std::string> write_status(kube::Client& client, const api::TrainingJob& job,
                                          const api::TrainingJobStatus& status);

}  // namespace lockstep::control
