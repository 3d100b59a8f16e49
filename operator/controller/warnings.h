// What the API server warns of when it creates a job's objects, as a person should read it.
#pragma once

#include <string>
#include <vector>

#include "operator/kube/client.h"
#include "operator/plan/plan.h"

namespace lockstep::control {

// The events about `warnings` (warning_texts(), of objects of namespace `ns`): at most two, one
// about Pod Security and one about all else, each with all texts in the server's words. A gang of
// pods made alike is warned of alike, so this is one event for all its pods; made again in a later
// attempt, it counts the same event up.
//
// Levels that only audit tell nobody but the cluster's audit log: to know of them takes a right on
// namespaces and a copy of the standards, as refusal.h says of judging pods beforehand.
// Source: k8s.io/pod-security-admission admission/admission.go (the text of the warning).
std::vector<plan::Event> explain_warnings(const kube::Warnings& warnings, const std::string& ns);

}  // namespace lockstep::control
