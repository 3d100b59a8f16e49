// Events about a job or the operator's Lease, for people: `kubectl describe` and `kubectl get
// events`.
#pragma once

#include <string>

#include "operator/api/training_job.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"
#include "runtime/common/result.h"

namespace lockstep::control {

// What an event is about.
struct EventSubject {
  std::string api_version, kind, name, ns, uid;
};

// Emits one event about the subject. An event that says the same as one before counts that one up:
// the name of an event is a function of what it says, so this survives a restart of the operator
// and needs no memory. A failure is returned but never a reason to stop.
common::Result<void> emit_event(kube::Client& client, const EventSubject& subject,
                                const plan::Event& event, api::Time now);
common::Result<void> emit_event(kube::Client& client, const api::TrainingJob& job,
                                const plan::Event& event, api::Time now);

}  // namespace lockstep::control
