#include "operator/kube/api_error.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "operator/kube/warning.h"

namespace lockstep::kube {
namespace {

using common::ErrorCode;

struct ReasonCode {
  std::string_view reason;
  ErrorCode code;
};

// Conflict covers a stale resourceVersion, a failed precondition of a DELETE and fields that
// another manager owns; for callers they are one thing: read again, decide again.
constexpr std::array<ReasonCode, 19> kReasons{{
    {"Unauthorized", ErrorCode::kPermissionDenied},
    {"Forbidden", ErrorCode::kPermissionDenied},
    {"NotFound", ErrorCode::kNotFound},
    {"AlreadyExists", ErrorCode::kAlreadyExists},
    {"Conflict", ErrorCode::kConflict},
    {"Gone", ErrorCode::kGone},
    {"Expired", ErrorCode::kGone},
    {"Invalid", ErrorCode::kInvalidArgument},
    {"BadRequest", ErrorCode::kInvalidArgument},
    {"MethodNotAllowed", ErrorCode::kInvalidArgument},
    {"NotAcceptable", ErrorCode::kInvalidArgument},
    {"UnsupportedMediaType", ErrorCode::kInvalidArgument},
    {"RequestEntityTooLarge", ErrorCode::kInvalidArgument},
    {"ServerTimeout", ErrorCode::kUnavailable},  // sent with 500
    {"Timeout", ErrorCode::kUnavailable},
    {"TooManyRequests", ErrorCode::kUnavailable},
    {"ServiceUnavailable", ErrorCode::kUnavailable},
    {"StorageReadError", ErrorCode::kUnavailable},
    {"InternalError", ErrorCode::kUnavailable},
}};

std::optional<ErrorCode> code_of_reason(std::string_view reason) {
  for (const ReasonCode& entry : kReasons) {
    if (entry.reason == reason) return entry.code;
  }
  return std::nullopt;
}

ErrorCode code_of_status(int status, bool is_post) {
  switch (status) {
    case 401:
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return is_post ? ErrorCode::kAlreadyExists : ErrorCode::kConflict;
    case 410:
      return ErrorCode::kGone;
    case 429:
      return ErrorCode::kUnavailable;
    default:
      break;
  }
  if (status >= 500) return ErrorCode::kUnavailable;
  if (status >= 400) return ErrorCode::kInvalidArgument;
  return ErrorCode::kInternal;  // e.g. a redirect: not an API server
}

// A field of an object that may be neither an object nor hold that field with that type.
std::string text_field(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// What a server asks for beyond this would stop a watch for good, or be more than clocks can count.
constexpr int64_t kMaxRetryAfterSeconds = 3600;

std::optional<std::chrono::seconds> retry_after_of(const nlohmann::json& status) {
  const auto details = status.find("details");
  if (details == status.end() || !details->is_object()) return std::nullopt;
  const auto seconds = details->find("retryAfterSeconds");
  if (seconds == details->end() || !seconds->is_number_integer()) return std::nullopt;
  const auto value = seconds->get<int64_t>();
  if (value <= 0) return std::nullopt;
  return std::chrono::seconds(std::min(value, kMaxRetryAfterSeconds));
}

std::optional<std::chrono::seconds> retry_after_of(const std::string& header) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), seconds);
  if (error != std::errc() || end != header.data() + header.size() || seconds < 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(std::min(seconds, kMaxRetryAfterSeconds));
}

bool is_status(const nlohmann::json& body) {
  return text_field(body, "kind") == "Status";
}

ApiError from_status(const nlohmann::json& status, int http_status, bool is_post) {
  ApiError out;
  out.http_status = http_status;
  out.reason = text_field(status, "reason");
  const std::optional<ErrorCode> by_reason = code_of_reason(out.reason);
  out.error.code = by_reason ? *by_reason : code_of_status(http_status, is_post);
  out.error.message = text_field(status, "message");
  if (out.error.message.empty()) out.error.message = out.reason;
  if (out.error.message.empty()) out.error.message = "HTTP " + std::to_string(http_status);
  if (status.is_object()) out.retry_after = retry_after_of(status);
  return out;
}

}  // namespace

ApiError decode_error(const HttpRequest& request, const HttpResponse& response) {
  constexpr std::size_t kMaxQuoted = 200;
  const bool is_post = request.method == "POST";
  const nlohmann::json body = nlohmann::json::parse(response.body, nullptr, false);
  ApiError out;
  if (is_status(body)) {
    out = from_status(body, response.status, is_post);
  } else {
    out = from_status({}, response.status, is_post);
    if (!response.body.empty()) {
      out.error.message.append(": ").append(presentable(response.body, kMaxQuoted));
    }
  }
  if (const auto header = retry_after_of(response.retry_after)) out.retry_after = header;
  if (response.status == 401) out.error.hint = "the server does not accept our credentials";
  return out;
}

ApiError decode_status(const nlohmann::json& status) {
  int code = 0;
  if (status.is_object()) {
    const auto it = status.find("code");
    if (it != status.end() && it->is_number_integer()) code = it->get<int>();
  }
  return from_status(status, code, false);
}

ApiError no_answer(const HttpRequest& request, const std::string& why) {
  ApiError out;
  out.error.code = ErrorCode::kUnavailable;
  out.error.message = request.method + " " + request.target + ": no answer: " + why;
  if (is_write(request)) out.error.hint = "it is unknown whether the write was done";
  return out;
}

}  // namespace lockstep::kube
