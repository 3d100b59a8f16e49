// kubeconfig files, found and merged by client-go's rules.
// Source: kubernetes/client-go tools/clientcmd/{loader,client_config}.go.
#pragma once

#include <string>
#include <vector>

#include "operator/kube/client_config.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

struct KubeconfigOptions {
  std::string path;     // --kubeconfig; must exist when given
  std::string context;  // --context; empty: the files' current-context
};

struct KubeconfigFile {
  std::string path;  // relative paths inside it start at its folder
  std::string text;
};

// The files to look at, in order, without duplicates: `explicit_path` alone if given, else the list
// in $KUBECONFIG, else ~/.kube/config.
std::vector<std::string> kubeconfig_paths(const std::string& explicit_path, const EnvLookup& env);

// Merges `files` (the first to name a cluster, user, context or current-context wins, entries are
// never mixed) and resolves `context`; `reader` fetches the certificates that entries name.
// Errors are kInvalidArgument and name file and field; what we cannot honour (SOCKS
// proxies, impersonation, ...) is refused by name.
common::Result<ClientConfig> resolve_kubeconfig(const std::vector<KubeconfigFile>& files,
                                                const std::string& context,
                                                const FileReader& reader);

// Finds, reads and resolves; a cluster without a proxy-url gets the environment's proxy.
// kNotFound if no file exists, naming the places looked at.
common::Result<ClientConfig> load_kubeconfig(const KubeconfigOptions& options, const EnvLookup& env,
                                             const FileReader& reader);

}  // namespace lockstep::kube
