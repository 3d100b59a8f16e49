#include "tests/support/process_kubelet/pod_json.h"

namespace lockstep::testing {

using nlohmann::json;

namespace {

std::string field_value(const json& pod, const std::string& path, const std::string& pod_ip,
                        const std::string& node) {
  if (path == "status.podIP" || path == "status.hostIP") return pod_ip;
  if (path == "spec.nodeName") return node;
  if (path == "metadata.name") return pod["metadata"]["name"];
  if (path == "metadata.namespace") return pod["metadata"]["namespace"];
  if (path == "metadata.uid") return pod["metadata"]["uid"];
  return "";
}

}  // namespace

std::vector<std::string> host_names(const json& pod) {
  const std::string name = pod["metadata"]["name"];
  const std::string ns = pod["metadata"]["namespace"];
  const std::string host = pod["spec"].value("hostname", name);
  std::vector<std::string> names = {host};
  const std::string service = pod["spec"].value("subdomain", "");
  if (service.empty()) return names;
  std::string full = host + "." + service;
  for (const std::string& part :
       {std::string(), ns, std::string("svc"), std::string("cluster.local")}) {
    if (!part.empty()) full += "." + part;
    names.push_back(full);
  }
  return names;
}

std::vector<std::string> container_environment(const json& pod, const std::string& pod_ip,
                                               const std::string& node) {
  std::vector<std::string> result;
  const json& container = pod["spec"]["containers"][0];
  for (const json& variable : container.value("env", json::array())) {
    std::string value = variable.value("value", "");
    if (variable.contains("valueFrom") && variable["valueFrom"].contains("fieldRef")) {
      value = field_value(pod, variable["valueFrom"]["fieldRef"]["fieldPath"], pod_ip, node);
    }
    result.push_back(variable["name"].get<std::string>() + "=" + value);
  }
  return result;
}

json pod_status(const json& pod, const PodStatusInput& input) {
  const json& container = pod["spec"]["containers"][0];
  json state;
  std::string phase = "Running";
  if (input.terminated) {
    const TerminatedContainer& end = *input.terminated;
    phase = end.exit_code == 0 ? "Succeeded" : "Failed";
    state["terminated"] = {{"exitCode", end.exit_code},
                           {"reason", end.exit_code == 0 ? "Completed" : "Error"},
                           {"message", end.message},
                           {"startedAt", end.started_at},
                           {"finishedAt", end.finished_at}};
  } else {
    state["running"] = {{"startedAt", input.started_at}};
  }
  const bool running = !input.terminated.has_value();
  const auto condition = [&](const char* type, bool holds) {
    return json{{"type", type},
                {"status", holds ? "True" : "False"},
                {"lastTransitionTime", input.started_at}};
  };
  return {{"phase", phase},
          {"podIP", input.pod_ip},
          {"podIPs", json::array({{{"ip", input.pod_ip}}})},
          {"hostIP", "127.0.0.1"},
          {"startTime", input.started_at},
          {"conditions",
           json::array({condition("PodScheduled", true), condition("Initialized", true),
                        condition("ContainersReady", running), condition("Ready", running)})},
          {"containerStatuses", json::array({{{"name", container["name"]},
                                              {"image", container.value("image", "")},
                                              {"imageID", ""},
                                              {"ready", running},
                                              {"started", running},
                                              {"restartCount", 0},
                                              {"state", state}}})}};
}

}  // namespace lockstep::testing
