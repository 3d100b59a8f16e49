// The `exec` part of a kubeconfig's user.
#pragma once

#include <nlohmann/json.hpp>

#include "operator/kube/client_config.h"
#include "operator/kube/exec_plugin.h"
#include "operator/kube/kubeconfig_entry.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

// The plugin that `user` names. kInvalidArgument, naming the field, also for what we cannot honour:
// v1alpha1, and plugins that insist on a terminal.
common::Result<ExecPlugin> read_exec_plugin(const KubeconfigEntry& user);

// What a plugin that asks for it is told about the cluster: `config`, and the extension that the
// cluster's entry keeps for plugins.
nlohmann::json cluster_info(const ClientConfig& config, const YAML::Node& cluster);

}  // namespace lockstep::kube
