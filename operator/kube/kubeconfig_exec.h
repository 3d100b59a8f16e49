// The `exec` part of a kubeconfig's user.
#pragma once

#include <string>

#include "operator/kube/client_config.h"
#include "operator/kube/exec_plugin.h"
#include "operator/kube/kubeconfig_entry.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

// The plugin that `user` names. kInvalidArgument, naming the field, also for what we cannot honour:
// v1alpha1, and plugins that insist on a terminal.
common::Result<ExecPlugin> read_exec_plugin(const KubeconfigEntry& user);

// What a plugin that asks for it is told about the cluster, as JSON: `config`, and the extension
// that the cluster's entry keeps for plugins. kInvalidArgument if that is nested too deeply or
// never ends, as an anchor inside of itself, or if a text is no UTF-8.
common::Result<std::string> cluster_info(const ClientConfig& config,
                                         const KubeconfigEntry& cluster);

}  // namespace lockstep::kube
