// A failed system call as an Error: what was tried, on which path, the system's own words.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "runtime/common/result.h"

namespace lockstep::common {

// The code that a caller branches on for an errno value.
inline ErrorCode code_of_errno(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return ErrorCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInternal;
  }
}

// "cannot ACTION PATH: No space left on device", with a hint where one helps.
inline Error system_error(const std::string& action, const std::string& path, int number) {
  std::string hint;
  if (number == ENOSPC || number == EDQUOT) {
    hint = "free space on this volume, or use a larger one";
  } else if (number == EACCES || number == EPERM) {
    hint = "check owner and permissions of the path for the user that runs this process";
  } else if (number == EROFS) {
    hint = "the volume is mounted read-only: choose a writable one";
  }
  return Error{code_of_errno(number),
               "cannot " + action + " " + path + ": " + std::generic_category().message(number),
               hint};
}

}  // namespace lockstep::common
