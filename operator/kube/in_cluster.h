// The configuration of a process inside a pod, from its service account.
// Source: kubernetes/client-go rest/config.go InClusterConfig.
#pragma once

#include <string>

#include "operator/kube/client_config.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

inline constexpr const char* kServiceAccountFolder =
    "/var/run/secrets/kubernetes.io/serviceaccount";

// True if the API server's address is in the environment.
bool is_in_cluster(const EnvLookup& env);

// Host and port from the environment, token, CA and namespace from `folder`; $POD_NAMESPACE beats
// the namespace file. kNotFound outside a pod, kInvalidArgument if a file is missing or empty.
common::Result<ClientConfig> load_in_cluster(const EnvLookup& env, const FileReader& reader,
                                             const std::string& folder = kServiceAccountFolder);

}  // namespace lockstep::kube
