// Names and labels of a job's children. Names are functions of (job, attempt, rank), so a crash
// between any two API writes leaves nothing that the next plan does not recognise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/training_job.h"

namespace lockstep::plan {

inline constexpr const char* kJobNameLabel = "lockstep.dev/job-name";
inline constexpr const char* kJobUidLabel = "lockstep.dev/job-uid";
inline constexpr const char* kRankLabel = "lockstep.dev/rank";
inline constexpr const char* kAttemptLabel = "lockstep.dev/attempt";
inline constexpr const char* kRoleLabel = "lockstep.dev/role";

// Which rank of which attempt a pod is.
struct PodIdentity {
  int64_t attempt = 0;
  int64_t rank = 0;
  auto operator<=>(const PodIdentity&) const = default;
};

// "<job>-<attempt>-<rank>": the pod's name and its host name in the job's headless Service. A name
// of its own for every attempt, because a headless Service still answers for terminating pods.
std::string pod_name(std::string_view job, PodIdentity identity);
// "<job>-<attempt>".
std::string config_map_name(std::string_view job, int64_t attempt);
// "<job>".
std::string service_name(std::string_view job);

// "<job>-<uid>-<attempt>": of the attempt that the group began with. Differs between jobs of one
// name that follow each other: others may still know the older one's.
std::string pod_group_name(const api::TrainingJob& job, int64_t attempt);

// The inverse of pod_name(); nothing for any other name.
std::optional<PodIdentity> parse_pod_name(std::string_view job, std::string_view name);
// The inverse of config_map_name(); nothing for any other name.
std::optional<int64_t> parse_config_map_name(std::string_view job, std::string_view name);

// Labels of every child of the job.
std::map<std::string, std::string> child_labels(const api::TrainingJob& job);
// Labels of a pod: child_labels() and its identity.
std::map<std::string, std::string> pod_labels(const api::TrainingJob& job, PodIdentity identity);
// The label selector that finds a job's pods, as kubectl takes it.
std::string pod_selector(std::string_view job);

}  // namespace lockstep::plan
