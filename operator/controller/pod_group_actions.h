// What is done about the PodGroup of a scheduler that knows gangs. Its type may not be served at
// all, and no store holds it: so the server is asked whose it is.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "operator/api/training_job.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"
#include "runtime/common/result.h"

namespace lockstep::control {

struct PodGroupWrite {
  common::Result<void> result;
  bool has_changed = false;
  std::optional<std::chrono::seconds> retry_after;  // the server's wish with a failure
  kube::Warnings warnings;
};

// Creates the group; one of ours that exists already is brought to the body's spec. kConflict:
// another owner has the name, or somebody was faster. kUnavailable: its type is not served.
PodGroupWrite bring_pod_group(kube::Client& client, const api::TrainingJob& job,
                              const plan::CreatePodGroup& group);

// Deletes the group if it is there and ours.
PodGroupWrite remove_pod_group(kube::Client& client, const api::TrainingJob& job,
                               const plan::DeletePodGroup& group);

// "scheduling.volcano.sh/v1beta1" as the type of its PodGroups.
kube::ResourceType pod_group_type(const std::string& api_version);

}  // namespace lockstep::control
