// One request to an MLflow server: the only part of this library that talks to a network.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/common/result.h"
#include "runtime/hub/hub_settings.h"
#include "runtime/hub/url.h"

namespace lockstep::runtime {

// A server and how to reach it.
struct MlflowServer {
  Url address;                  // its target, without a slash at the end, comes before every path
  std::string authorization{};  // the header's value; empty: nobody is named
  ProxySettings proxies{};
  std::chrono::seconds connect_timeout{5};
  std::chrono::seconds answer_timeout{20};  // for each piece of it
};

// `tracking_uri` with who asks: $MLFLOW_TRACKING_TOKEN, or $MLFLOW_TRACKING_USERNAME and
// $MLFLOW_TRACKING_PASSWORD, as MLflow's own clients read them; and the proxies.
// kInvalidArgument, naming the field or the variable. Secrets are not shown.
common::Result<MlflowServer> mlflow_server(const std::string& tracking_uri, const EnvLookup& env);

struct MlflowRequest {
  std::string path;                         // behind /api/2.0/mlflow/, with its query
  std::optional<nlohmann::json> body = {};  // of a POST; nothing: a GET
};

// The object that the server answers. Follows no redirect. Ends early once `stop` is requested.
// Errors, in MLflow's own words: kUnavailable if another try may end otherwise (no answer, 408,
// 425, 429, 5xx), kNotFound and kAlreadyExists by its error code, kPermissionDenied for 401 and
// 403, else kInvalidArgument; so is what no MLflow server answers.
common::Result<nlohmann::json> call_mlflow(const MlflowServer& server, const MlflowRequest& request,
                                           const std::stop_token& stop);

}  // namespace lockstep::runtime
