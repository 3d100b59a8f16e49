// Result<T>: a value or an Error, shaped like std::expected so that C++23 can replace it.
// Values for what the caller branches on; exceptions for what ends the work.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace lockstep::common {

enum class ErrorCode {
  kInvalidArgument,
  kNotFound,
  kAlreadyExists,
  kConflict,
  kGone,
  kUnavailable,
  kPermissionDenied,
  kDataLoss,
  kInternal,
};

std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what was found, where
  std::string hint;     // what to do; may be empty
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return has_value(); }

  // Precondition: has_value().
  T& value() & {
    assert(has_value());
    return *std::get_if<T>(&state_);
  }
  const T& value() const& {
    assert(has_value());
    return *std::get_if<T>(&state_);
  }
  T&& value() && {
    assert(has_value());
    return std::move(*std::get_if<T>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Precondition: !has_value().
  const Error& error() const {
    assert(!has_value());
    return *std::get_if<Error>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Error& error() const {
    assert(!has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace lockstep::common

#define LOCKSTEP_CONCAT_INNER(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_INNER(a, b)

// Returns the error of `expr` (a Result) from the current function, if it has one.
#define RETURN_IF_ERROR(expr)                                        \
  do {                                                               \
    if (auto lockstep_result = (expr); !lockstep_result.has_value()) \
      return lockstep_result.error();                                \
  } while (false)

// Declares or assigns `lhs` from the value of `expr` (a Result), or returns its error.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(LOCKSTEP_CONCAT(lockstep_result_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(result, lhs, expr)  \
  auto result = (expr);                           \
  if (!result.has_value()) return result.error(); \
  lhs = std::move(result).value()
