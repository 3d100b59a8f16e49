// What the API server refuses to create, as a person should read it.
#pragma once

#include <string>

#include "runtime/common/result.h"

namespace lockstep::control {

// Why nothing is created, for the condition Scheduled.
struct Refusal {
  std::string reason;   // "PodSecurity", or "CreationRefused" for all else
  std::string message;  // the server's own words first: they name the field or the quota
};

// True if the API server will go on refusing until somebody changes something, e.g. a quota.
bool is_refusal(const common::Error& error);

// Reads a refusal of an object of namespace `ns`. What a Pod Security level forbids is the
// namespace's matter, so the label that sets the level is named too. Pure.
//
// Pods are not judged beforehand from the namespace's labels: that would take a right on all
// namespaces and a copy of the standards, and miss the exemptions of the cluster's configuration.
// Source: k8s.io/pod-security-admission admission/admission.go (the text of the refusal).
Refusal explain_refusal(const common::Error& error, const std::string& ns);

}  // namespace lockstep::control
