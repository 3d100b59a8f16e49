// From a refused call to an ApiError: Status.reason first, the HTTP code where it says nothing.
// Source: kubernetes/apimachinery pkg/apis/meta/v1/types.go, pkg/api/errors/errors.go.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"
#include "operator/kube/request.h"

namespace lockstep::kube {

// The error that `response` (not 2xx) to `request` tells.
ApiError decode_error(const HttpRequest& request, const HttpResponse& response);

// The error in a Status object, e.g. that of an ERROR event of a watch.
ApiError decode_status(const nlohmann::json& status);

// A call without an answer. The outcome of a write is then unknown.
ApiError no_answer(const HttpRequest& request, const std::string& why);

}  // namespace lockstep::kube
