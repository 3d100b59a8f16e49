// Where an API server is and how to prove who we are; made by kubeconfig.h or in_cluster.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "operator/kube/exec_plugin.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

struct TlsConfig {
  std::string ca_pem;           // empty: the system's certificate authorities
  std::string client_cert_pem;  // with its chain; empty: no client certificate
  std::string client_key_pem;
  // Where the texts above came from, to be read again as they rotate; empty: they are for ever.
  std::string ca_file, client_cert_file, client_key_file;
  std::string server_name;  // verified and sent as SNI in place of the URL's host; may be empty
  bool insecure_skip_verify = false;
};

struct ClientConfig {
  std::string server;  // "https://10.0.0.1:6443" or "http://...", with an optional path prefix
  TlsConfig tls;
  std::string token;               // bearer token; empty = none
  std::string token_file;          // re-read as it rotates; beats `token`; empty = none
  std::optional<ExecPlugin> exec;  // gives token or client certificate where none is named above
  std::string proxy_url;       // "http://user:password@host:port"; empty: straight to the server
  std::string ns = "default";  // of the context, or of the service account
};

// Value of an environment variable.
using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;
// Content of a file; kNotFound if it does not exist.
using FileReader = std::function<common::Result<std::string>(const std::string& path)>;

// The process's environment and file system.
std::optional<std::string> read_env(const std::string& name);
common::Result<std::string> read_file(const std::string& path);

std::string base64(const std::string& text);

// Without leading and trailing white space.
std::string trim(const std::string& text);

}  // namespace lockstep::kube
