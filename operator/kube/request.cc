#include "operator/kube/request.h"

#include <charconv>

namespace lockstep::kube {
namespace {

constexpr const char* kJson = "application/json";

std::string with_query(std::string path, const std::string& query) {
  if (query.empty()) return path;
  path += '?';
  path += query;
  return path;
}

std::string write_query(const std::string& field_manager) {
  return "fieldValidation=Strict&fieldManager=" + percent_encode(field_manager);
}

ResourcePath collection_of(const ResourcePath& path) {
  ResourcePath collection = path;
  if (path.subresource.empty()) collection.name.clear();
  return collection;
}

}  // namespace

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kUnreserved = "-._~";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kUnreserved.find(c) != std::string_view::npos;
    if (plain) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4U];
    out += kHex[byte & 15U];
  }
  return out;
}

std::string url_path(const ResourcePath& path) {
  std::string out = path.type.group.empty() ? "/api" : "/apis";
  const auto add = [&out](const std::string& segment) {
    if (segment.empty()) return;
    out += '/';
    out += percent_encode(segment);
  };
  add(path.type.group);
  add(path.type.version);
  if (!path.ns.empty()) out += "/namespaces";
  add(path.ns);
  add(path.type.plural);
  add(path.name);
  add(path.subresource);
  return out;
}

bool is_write(const HttpRequest& request) {
  return request.method != "GET";
}

std::string list_query(const ListOptions& options) {
  std::string query;
  const auto add = [&query](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    if (!query.empty()) query += '&';
    query += name;
    query += '=';
    query += percent_encode(value);
  };
  add("labelSelector", options.label_selector);
  add("fieldSelector", options.field_selector);
  if (options.limit > 0) add("limit", std::to_string(options.limit));
  add("continue", options.continue_token);
  return query;
}

HttpRequest get_request(const ResourcePath& path) {
  return {"GET", url_path(path), "", ""};
}

HttpRequest list_request(const ResourcePath& path, const ListOptions& options) {
  return {"GET", with_query(url_path(path), list_query(options)), "", ""};
}

HttpRequest create_request(const ResourcePath& path, const nlohmann::json& body,
                           const std::string& field_manager) {
  return {"POST", with_query(url_path(collection_of(path)), write_query(field_manager)), kJson,
          body.dump()};
}

HttpRequest replace_request(const ResourcePath& path, const nlohmann::json& body,
                            const std::string& field_manager) {
  return {"PUT", with_query(url_path(path), write_query(field_manager)), kJson, body.dump()};
}

HttpRequest patch_request(const ResourcePath& path, PatchType type, const nlohmann::json& body,
                          const std::string& field_manager) {
  const bool apply = type == PatchType::kApply;
  // A controller owns the fields it applies: it takes them over from whoever set them before.
  const std::string query = write_query(field_manager) + (apply ? "&force=true" : "");
  return {"PATCH", with_query(url_path(path), query),
          apply ? "application/apply-patch+yaml" : "application/merge-patch+json", body.dump()};
}

HttpRequest delete_request(const ResourcePath& path, const DeleteOptions& options) {
  nlohmann::json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = options.resource_version;
  }
  if (!options.propagation.empty()) body["propagationPolicy"] = options.propagation;
  return {"DELETE", url_path(path), kJson, body.dump()};
}

HttpRequest watch_request(const ResourcePath& path, const std::string& query) {
  return {"GET", with_query(url_path(path), query), "", ""};
}

std::chrono::seconds watch_read_timeout(std::string_view query) {
  constexpr std::string_view kName = "timeoutSeconds=";
  constexpr int kMargin = 5;
  int seconds = 60;
  std::size_t at = query.find(kName);
  while (at != std::string_view::npos && at > 0 && query[at - 1] != '&') {
    at = query.find(kName, at + 1);
  }
  if (at != std::string_view::npos) {
    const std::string_view value = query.substr(at + kName.size());
    std::from_chars(value.data(), value.data() + value.size(), seconds);
  }
  return std::chrono::seconds(seconds + kMargin);
}

}  // namespace lockstep::kube
