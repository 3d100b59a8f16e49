#include "operator/kube/kubeconfig_exec.h"

#include <utility>

namespace lockstep::kube {
namespace {

using common::Result;
using nlohmann::json;

constexpr std::string_view kV1 = "client.authentication.k8s.io/v1";
constexpr std::string_view kV1Beta1 = "client.authentication.k8s.io/v1beta1";

json to_json(const YAML::Node& node) {
  if (node.IsMap()) {
    json out = json::object();
    for (const auto& member : node) out[member.first.Scalar()] = to_json(member.second);
    return out;
  }
  if (node.IsSequence()) {
    json out = json::array();
    for (const YAML::Node& element : node) out.push_back(to_json(element));
    return out;
  }
  if (!node.IsScalar()) return nullptr;
  if (node.Tag() == "!") return node.Scalar();  // quoted
  const json value = json::parse(node.Scalar(), nullptr, false);
  return value.is_number() || value.is_boolean() ? value : json(node.Scalar());
}

Result<void> read_lists(const KubeconfigEntry& entry, ExecPlugin& out) {
  const YAML::Node args = entry.node["args"];
  if (is_set(args)) {
    if (!args.IsSequence()) return bad(entry, "args", "must be a list");
    for (const YAML::Node& arg : args) {
      if (!arg.IsScalar()) return bad(entry, "args", "must be a list of strings");
      out.args.push_back(arg.Scalar());
    }
  }
  const YAML::Node env = entry.node["env"];
  if (!is_set(env)) return {};
  if (!env.IsSequence()) return bad(entry, "env", "must be a list");
  for (const YAML::Node& variable : env) {
    const bool is_pair = variable.IsMap() && variable["name"].IsDefined() &&
                         variable["name"].IsScalar() && variable["value"].IsDefined() &&
                         variable["value"].IsScalar();
    if (!is_pair) return bad(entry, "env", "must be a list of names and values");
    out.env.emplace_back(variable["name"].Scalar(), variable["value"].Scalar());
  }
  return {};
}

}  // namespace

Result<ExecPlugin> read_exec_plugin(const KubeconfigEntry& user) {
  const KubeconfigEntry entry{user.file, user.where + ".exec", user.node["exec"]};
  if (!entry.node.IsMap()) return bad(entry, "", "must be a map");
  ExecPlugin out;
  out.where = entry.file + ": " + entry.where;
  ASSIGN_OR_RETURN(out.command, text_of(entry, "command"));
  if (out.command.empty()) return bad(entry, "command", "is missing");
  // A name is found in PATH; a relative path starts at the kubeconfig's folder.
  if (out.command.find('/') != std::string::npos) {
    out.command = resolve_path(out.command, entry.file);
  }
  ASSIGN_OR_RETURN(out.api_version, text_of(entry, "apiVersion"));
  if (out.api_version != kV1 && out.api_version != kV1Beta1) {
    return bad(entry, "apiVersion", "'" + out.api_version + "' is not supported",
               "use client.authentication.k8s.io/v1 or v1beta1");
  }
  std::string mode;
  ASSIGN_OR_RETURN(mode, text_of(entry, "interactiveMode"));
  if (mode == "Always") {
    return bad(entry, "interactiveMode", "Always is not supported: there is no terminal",
               "use IfAvailable or Never");
  }
  if (!mode.empty() && mode != "IfAvailable" && mode != "Never") {
    return bad(entry, "interactiveMode", "must be Never, IfAvailable or Always");
  }
  if (mode.empty() && out.api_version == kV1) return bad(entry, "interactiveMode", "is missing");
  ASSIGN_OR_RETURN(out.install_hint, text_of(entry, "installHint"));
  ASSIGN_OR_RETURN(out.wants_cluster, flag_of(entry, "provideClusterInfo"));
  RETURN_IF_ERROR(read_lists(entry, out));
  return out;
}

json cluster_info(const ClientConfig& config, const YAML::Node& cluster) {
  json out = {{"server", config.server}};
  const auto add = [&out](const char* name, const std::string& value) {
    if (!value.empty()) out[name] = value;
  };
  add("tls-server-name", config.tls.server_name);
  add("proxy-url", config.proxy_url);
  if (!config.tls.ca_pem.empty()) out["certificate-authority-data"] = base64(config.tls.ca_pem);
  if (config.tls.insecure_skip_verify) out["insecure-skip-tls-verify"] = true;
  const YAML::Node extensions = cluster["extensions"];
  if (!extensions.IsDefined() || !extensions.IsSequence()) return out;
  for (const YAML::Node& extension : extensions) {
    if (!extension.IsMap() || !extension["name"].IsDefined() || !extension["name"].IsScalar()) {
      continue;
    }
    if (extension["name"].Scalar() == "client.authentication.k8s.io/exec") {
      out["config"] = to_json(extension["extension"]);
    }
  }
  return out;
}

}  // namespace lockstep::kube
