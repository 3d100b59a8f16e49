// From the API server's JSON to the small values that a reconcile reads. Pure; each throws
// nlohmann::json::exception on an object that is not what it claims to be.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "operator/kube/object_key.h"
#include "operator/plan/plan.h"

namespace lockstep::control {

// A child and the job that its label names, as "namespace/job": the group under which stores keep
// it.
struct ObservedPod {
  std::string job;
  plan::PodView view;
  std::string version;  // resource version
};
struct ObservedChild {
  std::string job;
  plan::ChildView view;
};

struct ObservedNode {
  bool is_ready = false;
};

std::string job_index(const kube::ObjectKey& job);
// The job that a child belongs to by its label; nothing without the label.
std::optional<kube::ObjectKey> job_of(const nlohmann::json& child);

std::optional<ObservedPod> project_pod(const nlohmann::json& object);
std::optional<ObservedChild> project_child(const nlohmann::json& object);
ObservedNode project_node(const nlohmann::json& object);
plan::ChildView child_view(const nlohmann::json& object);

}  // namespace lockstep::control
