// How what a user asks for and cannot be honoured ends the work.
#pragma once

#include <string>

#include "runtime/train/run_error.h"

namespace lockstep::runtime {

// Throws RunError(kInvalidConfig).
[[noreturn]] inline void refuse(const std::string& message, const std::string& hint) {
  throw RunError({common::ExitCode::kInvalidConfig, message, hint});
}

}  // namespace lockstep::runtime
