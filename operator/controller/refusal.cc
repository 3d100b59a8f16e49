#include "operator/controller/refusal.h"

namespace lockstep::control {

bool is_refusal(const common::Error& error) {
  return error.code == common::ErrorCode::kPermissionDenied ||
         error.code == common::ErrorCode::kInvalidArgument;
}

Refusal explain_refusal(const common::Error& error, const std::string& ns) {
  if (error.message.find("violates PodSecurity \"") == std::string::npos) {
    return {.reason = "CreationRefused", .message = error.message};
  }
  return {.reason = "PodSecurity",
          .message = error.message +
                     "; that level is set by the label pod-security.kubernetes.io/enforce of "
                     "namespace " +
                     ns + ", or by the cluster's default"};
}

}  // namespace lockstep::control
