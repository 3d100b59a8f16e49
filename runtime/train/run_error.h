// How a rank's work ends early: one exception type that carries the typed verdict.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/common/exit_code.h"
#include "runtime/common/result.h"

namespace lockstep::runtime {

struct RunFailure {
  common::ExitCode code = common::ExitCode::kInternal;
  std::string message;  // what happened
  std::string hint;     // what to do; may be empty
};

class RunError : public std::runtime_error {
 public:
  explicit RunError(RunFailure failure)
      : std::runtime_error(failure.message), failure_(std::move(failure)) {}
  const RunFailure& failure() const { return failure_; }

 private:
  RunFailure failure_;
};

// Ends the work over what a user asks for and cannot be honoured: RunError(kInvalidConfig).
[[noreturn]] inline void refuse(const std::string& message, const std::string& hint = "") {
  throw RunError({common::ExitCode::kInvalidConfig, message, hint});
}

// The failure that `error` stands for when it ends the work with `code`.
RunFailure to_failure(common::ExitCode code, const common::Error& error);

// The value of `result`, or a RunError with `code`.
template <typename T>
T value_or_raise(common::Result<T> result, common::ExitCode code) {
  if (!result) throw RunError(to_failure(code, result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

// The verdict on any exception that ends a rank: which exit code, and what to tell.
RunFailure verdict_of(const std::exception_ptr& error);

}  // namespace lockstep::runtime
