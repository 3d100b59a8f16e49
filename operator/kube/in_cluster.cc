#include "operator/kube/in_cluster.h"

#include "operator/kube/proxy.h"

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

constexpr const char* kHost = "KUBERNETES_SERVICE_HOST";
constexpr const char* kPort = "KUBERNETES_SERVICE_PORT";

Result<std::string> read_required(const FileReader& reader, const std::string& path) {
  Result<std::string> text = reader(path);
  if (!text) {
    return Error{ErrorCode::kInvalidArgument, text.error().message,
                 "set automountServiceAccountToken: true in the pod"};
  }
  if (trim(*text).empty()) return Error{ErrorCode::kInvalidArgument, path + ": is empty", ""};
  return text;
}

std::string find_namespace(const EnvLookup& env, const FileReader& reader,
                           const std::string& folder) {
  std::string from_env = env("POD_NAMESPACE").value_or("");
  if (!from_env.empty()) return from_env;
  const Result<std::string> from_file = reader(folder + "/namespace");
  const std::string ns = from_file ? trim(*from_file) : "";
  return ns.empty() ? "default" : ns;
}

}  // namespace

bool is_in_cluster(const EnvLookup& env) {
  return !env(kHost).value_or("").empty() && !env(kPort).value_or("").empty();
}

Result<ClientConfig> load_in_cluster(const EnvLookup& env, const FileReader& reader,
                                     const std::string& folder) {
  if (!is_in_cluster(env)) {
    return Error{ErrorCode::kNotFound,
                 std::string(kHost) + " and " + kPort + " are not set: this is not a pod",
                 "give --kubeconfig or set KUBECONFIG"};
  }
  const std::string host = *env(kHost);
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  ClientConfig config;
  config.server = "https://" + (bare_ipv6 ? "[" + host + "]" : host) + ":" + *env(kPort);
  config.token_file = folder + "/token";
  ASSIGN_OR_RETURN(config.token, read_required(reader, config.token_file));
  config.token = trim(config.token);
  config.tls.ca_file = folder + "/ca.crt";
  ASSIGN_OR_RETURN(config.tls.ca_pem, read_required(reader, config.tls.ca_file));
  config.ns = find_namespace(env, reader, folder);
  RETURN_IF_ERROR(use_proxy_of(env, config));
  return config;
}

}  // namespace lockstep::kube
