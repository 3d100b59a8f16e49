// The actions on a job's children: which to create, which to delete, when to look again.
#pragma once

#include <chrono>

#include <nlohmann/json.hpp>

#include "operator/plan/plan.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

// Grace of pods whose work is lost anyway. Never 0, which forces: the object would go while its
// process still runs.
inline constexpr std::chrono::seconds kShortGrace{1};

// Plans again after `delay` (at least 1 s), or earlier if `next` says so already.
void requeue_within(Plan& next, std::chrono::seconds delay);

// A pod in deletion is looked at again when its node should have confirmed its end.
void requeue_for_deletions(const Situation& s, Plan& next);

// Deletes `pod`, which is ours, unless it is null or already in deletion. Forces the deletion of a
// pod whose node is gone: nobody else would ever end it.
void delete_pod(Plan& next, const PodView* pod, std::chrono::seconds grace);

// Pods of older attempts. Nobody waits for them: their names and addresses are their own. The first
// failing pod of the last failed attempt stays until another failure takes its place: it holds no
// resources, and its log tells more than a status can.
void delete_stale_pods(const Situation& s, Plan& next);
// The same, that pod included.
void delete_all_stale_pods(const Situation& s, Plan& next);

// ConfigMaps of older attempts that have no pod any more.
void delete_old_config_maps(const Situation& s, Plan& next);

// Note [A template is taken once]
// All pods of an attempt are made from one template, whenever they are made: the ConfigMap, created
// before them, keeps it. spec.template may change at any time. A gang that has all its nodes goes
// on as it is, and its next attempt takes the new one; a gang that waits for nodes, or that the
// server refuses, gives way to a new attempt at once, for the template may be what it waits for.

// How long the pods of the present attempt may take to stop, as they were told when they were made.
std::chrono::seconds grace_of_attempt(const Situation& s);

// The template that the present attempt began with, or is to begin with.
nlohmann::json template_of_attempt(const Situation& s);

// True if the present attempt began with another template than spec.template is now.
bool has_other_template(const Situation& s);

// Creates what the recorded attempt lacks: ConfigMap and Service first, then the pods in the order
// of their ranks. Waits for a child of ours that is being deleted.
void create_missing(const Situation& s, Plan& next);

}  // namespace lockstep::plan
