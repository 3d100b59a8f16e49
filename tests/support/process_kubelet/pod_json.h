// Pure translations between a Pod's JSON and what the process kubelet needs of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::testing {

// What a pod's name resolves to: short host name and the forms below its headless service.
std::vector<std::string> host_names(const nlohmann::json& pod);

// Environment of the first container: values, and field references (metadata.name, status.podIP,
// ...).
std::vector<std::string> container_environment(const nlohmann::json& pod, const std::string& pod_ip,
                                               const std::string& node);

struct TerminatedContainer {
  int exit_code = 0;
  std::string message;
  std::string started_at, finished_at;  // RFC 3339
};

// A Pod status as a kubelet reports it: running, or terminated when `terminated` is given.
struct PodStatusInput {
  std::string pod_ip;
  std::string started_at;
  std::optional<TerminatedContainer> terminated;
};
nlohmann::json pod_status(const nlohmann::json& pod, const PodStatusInput& input);

}  // namespace lockstep::testing
