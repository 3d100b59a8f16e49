#include "operator/controller/warnings.h"

namespace lockstep::control {

std::vector<plan::Event> explain_warnings(const kube::Warnings& warnings, const std::string& ns) {
  std::string pod_security;
  std::string others;
  for (const std::string& text : warnings) {
    const bool is_level = text.find("would violate PodSecurity \"") != std::string::npos;
    std::string& all = is_level ? pod_security : others;
    if (!all.empty()) all += "; ";
    all += text;
  }
  std::vector<plan::Event> events;
  if (!pod_security.empty()) {
    events.push_back(
        {.warning = true,
         .reason = "PodSecurity",
         .message = "the pods are admitted, but the API server warns: " + pod_security +
                    "; that level is set by the label "
                    "pod-security.kubernetes.io/warn of namespace " +
                    ns + ", or by the cluster's default"});
  }
  if (!others.empty()) {
    events.push_back(
        {.warning = true, .reason = "ServerWarning", .message = "the API server warns: " + others});
  }
  return events;
}

}  // namespace lockstep::control
