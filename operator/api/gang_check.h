// What spec.template may not say where spec.scheduling.gangScheduler names a scheduler: the pod
// group is the operator's then.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "runtime/common/problem.h"

namespace lockstep::api {

// Problems between scheduling and template of `spec`. Pure; total on any JSON.
common::Problems check_gang(const nlohmann::json& spec);

// True if the template puts the pods into a pod group itself: then `auto` leaves that to its user.
bool has_own_pod_group(const nlohmann::json& pod_template);

// spec.schedulerName of the template; empty = none.
std::string scheduler_name(const nlohmann::json& pod_template);

}  // namespace lockstep::api
