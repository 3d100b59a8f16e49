// HTTP requests of the Kubernetes API as values: no input or output here.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"

namespace lockstep::kube {

struct HttpRequest {
  std::string method;
  std::string target;        // path and query, percent-encoded
  std::string content_type;  // of `body`
  std::string body;
};

struct HttpResponse {
  int status = 0;
  std::string retry_after;  // header; empty if absent
  std::string body;
  std::vector<std::string> warnings{};  // values of the Warning headers, in order
};

// True for a request that may change the server's state; such a request is never repeated blindly.
bool is_write(const HttpRequest& request);

// Everything but letters, digits and "-._~" as %XX.
std::string percent_encode(std::string_view text);

// "limit=500&continue=..." with the options that are set; empty if none is.
std::string list_query(const ListOptions& options);

// Requests of the verbs of Client. Writes ask for strict field validation, so that a misspelt field
// is an error and not silently dropped, and carry `field_manager`.
HttpRequest get_request(const ResourcePath& path);
HttpRequest list_request(const ResourcePath& path, const ListOptions& options);
HttpRequest create_request(const ResourcePath& path, const nlohmann::json& body,
                           const std::string& field_manager);
HttpRequest replace_request(const ResourcePath& path, const nlohmann::json& body,
                            const std::string& field_manager);
HttpRequest patch_request(const ResourcePath& path, PatchType type, const nlohmann::json& body,
                          const std::string& field_manager);
HttpRequest delete_request(const ResourcePath& path, const DeleteOptions& options);
HttpRequest watch_request(const ResourcePath& path, const std::string& query);

// How long a watch with `query` may stay silent: its timeoutSeconds and 5 s more, or 65 s.
std::chrono::seconds watch_read_timeout(std::string_view query);

}  // namespace lockstep::kube
