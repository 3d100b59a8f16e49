// Events about a job, for people: `kubectl describe` and `kubectl get events`.
#pragma once

#include "operator/api/training_job.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"
#include "runtime/common/result.h"

namespace lockstep::control {

// Emits one event about the job. An event that says the same as one before counts that one up: the
// name of an event is a function of what it says, so this survives a restart of the operator and
// needs no memory. A failure is returned but never a reason to stop.
common::Result<void> emit_event(kube::Client& client, const api::TrainingJob& job,
                                const plan::Event& event, api::Time now);

}  // namespace lockstep::control
