// The narrow seam to a Kubernetes API server: typed outcomes, JSON bodies, no knowledge of
// TrainingJob.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/result.h"

namespace lockstep::kube {

// A resource type, e.g. {"", "v1", "pods"} or {"lockstep.dev", "v1alpha1", "trainingjobs"}.
struct ResourceType {
  std::string group;
  std::string version;
  std::string plural;
  auto operator<=>(const ResourceType&) const = default;
};

// One object, or a collection when `name` is empty; all namespaces when `ns` is empty.
struct ResourcePath {
  ResourceType type;
  std::string ns;
  std::string name;
  std::string subresource;  // "status", "binding", "log"; usually empty
};
std::string url_path(const ResourcePath& path);

struct ListOptions {
  std::string label_selector;
  std::string field_selector;
  int64_t limit = 0;           // objects of one page; 0 = all at once
  std::string continue_token;  // metadata.continue of the page before
};

struct DeleteOptions {
  std::optional<int64_t> grace_period_seconds;
  std::string uid;               // precondition; empty = none
  std::string propagation;       // "Background" | "Foreground" | ""
  std::string resource_version;  // precondition; empty = none
};

// A failed call. `error.code` is what callers branch on; the rest is for messages and back-off.
struct ApiError {
  common::Error error;
  int http_status = 0;  // 0: no answer (then the outcome of a write is unknown)
  std::string reason;   // Status.reason
  std::optional<std::chrono::seconds> retry_after;
};

template <typename T>
using ApiResult = std::variant<T, ApiError>;

// What the server warns of though it does as asked, in its own words; see warning.h.
using Warnings = std::vector<std::string>;

enum class PatchType { kMerge, kApply };

// Blocking; safe to call from several threads. Never repeats a write blindly.
class Client {
 public:
  virtual ~Client() = default;
  virtual ApiResult<nlohmann::json> get(const ResourcePath& path) = 0;
  // Given up, as a call without an answer, once `stop` is requested.
  virtual ApiResult<nlohmann::json> list(const ResourcePath& path, const ListOptions& options,
                                         std::stop_token stop) = 0;
  // Adds to `warnings` what the server warns of with its answer, whatever that is.
  virtual ApiResult<nlohmann::json> create(const ResourcePath& path, const nlohmann::json& body,
                                           Warnings& warnings) = 0;
  // The same where nobody is to be told of warnings.
  ApiResult<nlohmann::json> create(const ResourcePath& path, const nlohmann::json& body) {
    Warnings nobody_reads;
    return create(path, body, nobody_reads);
  }
  virtual ApiResult<nlohmann::json> replace(const ResourcePath& path,
                                            const nlohmann::json& body) = 0;
  virtual ApiResult<nlohmann::json> patch(const ResourcePath& path, PatchType type,
                                          const nlohmann::json& body) = 0;
  virtual ApiResult<nlohmann::json> remove(const ResourcePath& path,
                                           const DeleteOptions& options) = 0;
  // Streams the lines of a watch request to `on_line` until the server closes, `stop` is requested
  // or `on_line` returns false. `query` is appended to the path. Returns nothing on a clean close.
  virtual std::optional<ApiError> stream(const ResourcePath& path, const std::string& query,
                                         std::stop_token stop,
                                         const std::function<bool(std::string_view)>& on_line) = 0;
};

}  // namespace lockstep::kube
