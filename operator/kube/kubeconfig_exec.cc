#include "operator/kube/kubeconfig_exec.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep::kube {
namespace {

using common::Result;
using nlohmann::json;

constexpr std::string_view kV1 = "client.authentication.k8s.io/v1";
constexpr std::string_view kV1Beta1 = "client.authentication.k8s.io/v1beta1";

// Nothing if `node` is nested deeper than `levels` or holds more than `nodes`, which goes down by
// those it holds: an anchor may stand inside of itself, and aliases of aliases grow without end.
std::optional<json> to_json(const YAML::Node& node, int levels, int& nodes) {
  if (levels == 0 || --nodes < 0) return std::nullopt;
  if (node.IsMap()) {
    json out = json::object();
    for (const auto& member : node) {
      std::optional<json> value = to_json(member.second, levels - 1, nodes);
      if (!value || !member.first.IsScalar()) return std::nullopt;
      out[member.first.Scalar()] = *std::move(value);
    }
    return out;
  }
  if (node.IsSequence()) {
    json out = json::array();
    for (const YAML::Node& element : node) {
      std::optional<json> value = to_json(element, levels - 1, nodes);
      if (!value) return std::nullopt;
      out.push_back(*std::move(value));
    }
    return out;
  }
  if (!node.IsScalar()) return json(nullptr);
  if (node.Tag() == "!") return json(node.Scalar());  // quoted
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

// Adds what the cluster's entry keeps for plugins, if anything.
Result<void> add_extension(const KubeconfigEntry& cluster, json& out) {
  constexpr int kMaxLevels = 64;
  int num_nodes = 10'000;  // at most
  const YAML::Node extensions = cluster.node["extensions"];
  if (!extensions.IsDefined() || !extensions.IsSequence()) return {};
  for (const YAML::Node& extension : extensions) {
    if (!extension.IsMap() || !extension["name"].IsDefined() || !extension["name"].IsScalar()) {
      continue;
    }
    if (extension["name"].Scalar() != "client.authentication.k8s.io/exec") continue;
    std::optional<json> own = to_json(extension["extension"], kMaxLevels, num_nodes);
    if (!own) {
      return bad(
          cluster, "extensions",
          "what it has for plugins is nested too deeply, holds too much or has a key that is "
          "no word");
    }
    out["config"] = *std::move(own);
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

Result<std::string> cluster_info(const ClientConfig& config, const KubeconfigEntry& cluster) {
  json out = {{"server", config.server}};
  const auto add = [&out](const char* name, const std::string& value) {
    if (!value.empty()) out[name] = value;
  };
  add("tls-server-name", config.tls.server_name);
  add("proxy-url", config.proxy_url);
  if (!config.tls.ca_pem.empty()) out["certificate-authority-data"] = base64(config.tls.ca_pem);
  if (config.tls.insecure_skip_verify) out["insecure-skip-tls-verify"] = true;
  RETURN_IF_ERROR(add_extension(cluster, out));
  try {
    return out.dump();
  } catch (const json::type_error&) {
    return bad(cluster, "", "has a text that is not UTF-8");
  }
}

}  // namespace lockstep::kube
