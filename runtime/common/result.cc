#include "runtime/common/result.h"

namespace lockstep::common {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kConflict:
      return "Conflict";
    case ErrorCode::kGone:
      return "Gone";
    case ErrorCode::kUnavailable:
      return "Unavailable";
    case ErrorCode::kPermissionDenied:
      return "PermissionDenied";
    case ErrorCode::kDataLoss:
      return "DataLoss";
    case ErrorCode::kInternal:
      return "Internal";
  }
  return "Internal";
}

}  // namespace lockstep::common
