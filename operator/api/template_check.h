// What `spec.template` may not say.
//
// Note [What makes a gang]
// A template is laid over every pod of a job (plan/overlay.h): it adds, and it replaces what is a
// matter of taste. What makes the pods one gang is refused by name: how ranks find each other
// (names, environment, the cluster's DNS), how they learn their job (the mounts and volumes that we
// make), how their end is told (restart policy, termination message), whose they are (owner,
// labels), and what other fields of the job decide. All else is the API server's matter: it checks
// what we create strictly, and its words stand in the job's condition.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "runtime/common/problem.h"

namespace lockstep::api {

inline constexpr const char* kTrainerContainer = "trainer";

// The template is kept in the attempt's ConfigMap and laid over every pod.
inline constexpr int64_t kMaxTemplateBytes = 65536;
inline constexpr int kMaxTemplateDepth = 64;  // as of a manifest (document.h)

// What is wrong with `spec.template`, at paths below "spec.template". Reads `inputs`, `output` and
// `command` of `spec` too: what they make cannot be replaced. Never throws.
common::Problems check_template(const nlohmann::json& spec);

}  // namespace lockstep::api
