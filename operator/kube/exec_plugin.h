// Credentials from a program that the kubeconfig names (exec credential plugins).
// Source: kubernetes/client-go plugin/pkg/client/auth/exec/exec.go, pkg/apis/clientauthentication.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "runtime/common/result.h"

namespace lockstep::kube {

struct ExecPlugin {
  std::string where;    // "FILE: users[u].user.exec", for messages
  std::string command;  // a path, or a name to be found in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // on top of ours
  std::string api_version;                               // of its answer
  std::string install_hint;
  bool wants_cluster = false;
  std::string cluster_json;  // told to it if it wants it
};

struct ExecCredential {
  using Time = std::chrono::system_clock::time_point;

  std::string token;  // bearer; empty = none
  std::string client_cert_pem;
  std::string client_key_pem;
  std::optional<Time> expires_at;  // nothing: valid until it is refused
  bool operator==(const ExecCredential&) const = default;
};

// The credential in the plugin's output. kPermissionDenied if it is none, or only half of one.
common::Result<ExecCredential> decode_exec_credential(const ExecPlugin& plugin,
                                                      const std::string& output);

// Runs the plugin, without a terminal, for at most `timeout` and no longer than until `stop` is
// requested. Blocks. kPermissionDenied with the last of what it said on standard error if it does
// not give a credential.
common::Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin,
                                               std::chrono::seconds timeout,
                                               const std::stop_token& stop = {});

}  // namespace lockstep::kube
