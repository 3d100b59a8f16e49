#include "operator/kube/kubeconfig.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "operator/kube/kubeconfig_entry.h"
#include "operator/kube/kubeconfig_exec.h"
#include "operator/kube/proxy.h"
#include "operator/kube/server_url.h"

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

using Entry = KubeconfigEntry;

struct Refusal {
  std::string_view field;
  std::string_view hint;
};

constexpr std::array<Refusal, 8> kRefusedInUser{{
    {"auth-provider", "auth providers are not supported: use a client certificate or a token"},
    {"username", "basic authentication is not supported: use a client certificate or a token"},
    {"password", "basic authentication is not supported: use a client certificate or a token"},
    {"as", "impersonation is not supported"},
    {"as-uid", "impersonation is not supported"},
    {"as-groups", "impersonation is not supported"},
    {"as-user-extra", "impersonation is not supported"},
    {"impersonate", "impersonation is not supported"},
}};
template <std::size_t N>
Result<void> refuse(const Entry& entry, const std::array<Refusal, N>& refusals) {
  for (const Refusal& refusal : refusals) {
    if (is_set(entry.node[std::string(refusal.field)])) {
      return bad(entry, refusal.field, "is not supported", refusal.hint);
    }
  }
  return {};
}

using Documents = std::vector<std::pair<std::string, YAML::Node>>;

Result<Documents> parse(const std::vector<KubeconfigFile>& files) {
  Documents documents;
  for (const KubeconfigFile& file : files) {
    try {
      YAML::Node root = YAML::Load(file.text);
      if (root.IsNull()) continue;
      if (!root.IsMap()) {
        return Error{ErrorCode::kInvalidArgument, file.path + ": is not a kubeconfig", ""};
      }
      documents.emplace_back(file.path, std::move(root));
    } catch (const YAML::Exception& e) {
      return Error{ErrorCode::kInvalidArgument, file.path + ": " + e.what(), ""};
    }
  }
  return documents;
}

// The first entry called `name` in the lists `plural` of all documents.
Result<Entry> find_entry(const Documents& documents, const std::string& plural,
                         const std::string& singular, const std::string& name,
                         const std::string& named_by) {
  for (const auto& [file, root] : documents) {
    const YAML::Node list = root[plural];
    if (!is_set(list)) continue;
    if (!list.IsSequence()) return bad({file, plural, {}}, "", "must be a list");
    for (const YAML::Node& item : list) {
      if (!item.IsMap() || !item["name"].IsDefined() || !item["name"].IsScalar()) {
        return bad({file, plural, {}}, "", "has an entry without a name");
      }
      if (item["name"].Scalar() != name) continue;
      const YAML::Node body = item[singular];
      std::string path = plural;
      path.append("[").append(name).append("].").append(singular);
      // What is absent is no node to assign to: yaml-cpp throws.
      if (!body.IsDefined() || body.IsNull()) {
        return Entry{file, std::move(path), YAML::Node(YAML::NodeType::Map)};
      }
      if (!body.IsMap()) return bad({file, std::move(path), {}}, "", "must be a map");
      return Entry{file, std::move(path), body};
    }
  }
  return Error{ErrorCode::kInvalidArgument,
               named_by + ": there is no entry '" + name + "' in " + plural, ""};
}

Result<void> read_cluster(const Entry& entry, const FileReader& reader, ClientConfig& out) {
  ASSIGN_OR_RETURN(out.server, text_of(entry, "server"));
  if (out.server.empty()) return bad(entry, "server", "is missing");
  if (out.server.find("://") == std::string::npos) out.server = "http://" + out.server;
  ASSIGN_OR_RETURN(out.proxy_url, text_of(entry, "proxy-url"));
  if (!out.proxy_url.empty()) {
    const Result<Proxy> proxy = parse_proxy(out.proxy_url);
    if (!proxy) return bad(entry, "proxy-url", proxy.error().message, proxy.error().hint);
  }
  ASSIGN_OR_RETURN(out.tls.ca_pem,
                   data_or_file(entry, "certificate-authority", reader, out.tls.ca_file));
  ASSIGN_OR_RETURN(out.tls.server_name, text_of(entry, "tls-server-name"));
  ASSIGN_OR_RETURN(out.tls.insecure_skip_verify, flag_of(entry, "insecure-skip-tls-verify"));
  if (out.tls.insecure_skip_verify && !out.tls.ca_pem.empty()) {
    return bad(entry, "insecure-skip-tls-verify",
               "cannot be combined with a certificate authority");
  }
  return {};
}

Result<void> read_user(const Entry& entry, const FileReader& reader, ClientConfig& out) {
  RETURN_IF_ERROR(refuse(entry, kRefusedInUser));
  ASSIGN_OR_RETURN(out.tls.client_cert_pem,
                   data_or_file(entry, "client-certificate", reader, out.tls.client_cert_file));
  ASSIGN_OR_RETURN(out.tls.client_key_pem,
                   data_or_file(entry, "client-key", reader, out.tls.client_key_file));
  if (out.tls.client_cert_pem.empty() != out.tls.client_key_pem.empty()) {
    const char* missing = out.tls.client_key_pem.empty() ? "client-key" : "client-certificate";
    return bad(entry, missing, "is missing: certificate and key come together");
  }
  ASSIGN_OR_RETURN(out.token, text_of(entry, "token"));
  ASSIGN_OR_RETURN(out.token_file, text_of(entry, "tokenFile"));
  out.token_file = resolve_path(out.token_file, entry.file);
  if (is_set(entry.node["exec"])) {
    ASSIGN_OR_RETURN(out.exec, read_exec_plugin(entry));
  }
  return {};
}

Result<Entry> find_context(const Documents& documents, const std::string& wanted) {
  if (!wanted.empty()) return find_entry(documents, "contexts", "context", wanted, "--context");
  for (const auto& [file, root] : documents) {
    std::string name;
    ASSIGN_OR_RETURN(name, text_of({file, "", root}, "current-context"));
    if (name.empty()) continue;
    return find_entry(documents, "contexts", "context", name, file + ": current-context");
  }
  std::string places;
  for (const auto& [file, root] : documents) places += (places.empty() ? "" : ", ") + file;
  return Error{ErrorCode::kInvalidArgument,
               (places.empty() ? "kubeconfig" : places) + ": current-context: is missing",
               "choose one with --context or `kubectl config use-context`"};
}

}  // namespace

std::vector<std::string> kubeconfig_paths(const std::string& explicit_path, const EnvLookup& env) {
  if (!explicit_path.empty()) return {explicit_path};
  std::vector<std::string> paths;
  const std::string list = env("KUBECONFIG").value_or("");
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    const std::string path = list.substr(begin, end - begin);
    if (!path.empty() && std::find(paths.begin(), paths.end(), path) == paths.end()) {
      paths.push_back(path);
    }
    begin = end + 1;
  }
  const std::string home = env("HOME").value_or("");
  if (list.empty() && !home.empty()) paths.push_back(home + "/.kube/config");
  return paths;
}

Result<ClientConfig> resolve_kubeconfig(const std::vector<KubeconfigFile>& files,
                                        const std::string& context, const FileReader& reader) {
  Documents documents;
  ASSIGN_OR_RETURN(documents, parse(files));
  const Result<Entry> chosen = find_context(documents, context);
  if (!chosen) return chosen.error();
  ClientConfig config;
  std::string cluster;
  std::string user;
  std::string ns;
  ASSIGN_OR_RETURN(cluster, text_of(*chosen, "cluster"));
  ASSIGN_OR_RETURN(user, text_of(*chosen, "user"));
  ASSIGN_OR_RETURN(ns, text_of(*chosen, "namespace"));
  if (cluster.empty()) return bad(*chosen, "cluster", "is missing");
  if (!ns.empty()) config.ns = ns;
  const std::string by = chosen->file + ": " + chosen->where;
  const Result<Entry> cluster_entry =
      find_entry(documents, "clusters", "cluster", cluster, by + ".cluster");
  if (!cluster_entry) return cluster_entry.error();
  RETURN_IF_ERROR(read_cluster(*cluster_entry, reader, config));
  if (user.empty()) return config;  // an anonymous client, as kubectl allows
  const Result<Entry> user_entry = find_entry(documents, "users", "user", user, by + ".user");
  if (!user_entry) return user_entry.error();
  RETURN_IF_ERROR(read_user(*user_entry, reader, config));
  if (config.exec && config.exec->wants_cluster) {
    ASSIGN_OR_RETURN(config.exec->cluster_json, cluster_info(config, *cluster_entry));
  }
  return config;
}

Result<ClientConfig> load_kubeconfig(const KubeconfigOptions& options, const EnvLookup& env,
                                     const FileReader& reader) {
  const std::vector<std::string> paths = kubeconfig_paths(options.path, env);
  std::vector<KubeconfigFile> files;
  std::string places;
  for (const std::string& path : paths) {
    Result<std::string> text = reader(path);
    if (text) {
      files.push_back({path, std::move(text).value()});
      continue;
    }
    if (text.error().code != ErrorCode::kNotFound || !options.path.empty()) return text.error();
    places += (places.empty() ? "" : ", ") + path;
  }
  if (files.empty()) {
    return Error{ErrorCode::kNotFound,
                 "no kubeconfig found" + (places.empty() ? "" : " at " + places),
                 "give --kubeconfig or set KUBECONFIG"};
  }
  Result<ClientConfig> config = resolve_kubeconfig(files, options.context, reader);
  if (!config) return config;
  RETURN_IF_ERROR(use_proxy_of(env, *config));
  return config;
}

}  // namespace lockstep::kube
