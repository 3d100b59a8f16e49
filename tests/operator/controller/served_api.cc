#include "tests/operator/controller/served_api.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::control {

using common::ErrorCode;
using nlohmann::json;
using testing::FrontRequest;

namespace {

constexpr const char* kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

// "/api/v1/namespaces/NS/pods/NAME" or "/apis/GROUP/VERSION/..." as url_path() writes them.
kube::ResourcePath path_of(const std::string& target) {
  std::vector<std::string> parts;
  const std::string path = target.substr(0, target.find('?'));
  for (std::size_t begin = 1; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool is_core = parts.at(0) == "api";
  std::size_t at = is_core ? 2 : 3;
  kube::ResourcePath result;
  result.type.group = is_core ? "" : parts.at(1);
  if (parts.size() >= at) result.type.version = parts.at(at - 1);
  if (parts.size() <= at) return result;  // what is served of a group
  if (parts.at(at) == "namespaces" && parts.size() > at + 2) {
    result.ns = parts.at(at + 1);
    at += 2;
  }
  result.type.plural = parts.at(at);
  if (parts.size() > at + 1) result.name = parts.at(at + 1);
  if (parts.size() > at + 2) result.subresource = parts.at(at + 2);
  return result;
}

kube::DeleteOptions delete_options(const json& body) {
  kube::DeleteOptions options;
  if (body.contains("gracePeriodSeconds")) {
    options.grace_period_seconds = body["gracePeriodSeconds"].get<int64_t>();
  }
  const json preconditions = body.value("preconditions", json::object());
  options.uid = preconditions.value("uid", "");
  options.resource_version = preconditions.value("resourceVersion", "");
  return options;
}

const char* reason_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kConflict:
      return "Conflict";
    default:
      return "InternalError";
  }
}

// A Warning header for each, as an API server writes them.
std::string warning_headers(const kube::Warnings& warnings) {
  std::string headers;
  for (const std::string& text : warnings) {
    headers += "Warning: 299 - \"";
    for (const char c : text) {
      if (c == '"' || c == '\\') headers += '\\';
      headers += c;
    }
    headers += "\"\r\n";
  }
  return headers;
}

FakeApiServer::Answer call(FakeApiServer& server, const FrontRequest& request,
                           kube::Warnings& warnings) {
  const kube::ResourcePath path = path_of(request.http.target);
  const std::string& method = request.http.method;
  const json body = request.http.body.empty() ? json::object() : json::parse(request.http.body);
  if (method == "POST") return server.create(path, body, warnings);
  if (method == "PUT") return server.replace(path, body);
  if (method == "PATCH") return server.patch(path, kube::PatchType::kMerge, body);
  if (method == "DELETE") return server.remove(path, delete_options(body));
  if (!path.name.empty()) return server.get(path);
  kube::ListOptions options;
  options.label_selector = request.parameter("labelSelector");
  return server.list(path, options, {});
}

}  // namespace

ServedApi::ServedApi(FakeApiServer& server) : server_(server) {
  acceptor_ = std::jthread([this](const std::stop_token& stop) { accept_all(stop); });
}

ServedApi::~ServedApi() {
  acceptor_.request_stop();
  acceptor_.join();
}

void ServedApi::accept_all(const std::stop_token& stop) {
  constexpr int kLookEveryMs = 10;
  std::map<std::shared_ptr<Connection>, std::jthread> connections;
  while (!stop.stop_requested()) {
    pollfd listening{listener_.fd(), POLLIN, 0};
    const int ready = poll(&listening, 1, kLookEveryMs);
    const int fd = ready > 0 ? accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC) : -1;
    std::erase_if(connections, [](const auto& entry) { return entry.first->ended.load(); });
    if (fd < 0) continue;
    const auto connection = std::make_shared<Connection>(fd);
    connections.emplace(connection, std::jthread([this, connection](const std::stop_token& end) {
                          serve(*connection, end);
                          connection->ended = true;
                        }));
  }
  for (auto& [connection, thread] : connections) {
    thread.request_stop();
    connection->socket.cut();
  }
}

void ServedApi::serve(Connection& connection, const std::stop_token& stop) {
  FrontRequest request;
  while (connection.socket.read(request)) {
    const bool goes_on = request.is_watch() ? answer_watch(connection, request, stop)
                                            : answer(connection, request, stop);
    if (!goes_on) break;
  }
  connection.socket.cut();
}

bool ServedApi::answer(Connection& connection, const FrontRequest& request,
                       const std::stop_token& /*stop*/) {
  kube::Warnings warnings;
  const FakeApiServer::Answer answer = call(server_, request, warnings);
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    return connection.socket.write(
        testing::status_answer(error->http_status, reason_of(error->error.code),
                               error->error.message, warning_headers(warnings)));
  }
  const int code = request.http.method == "POST" ? 201 : 200;
  return connection.socket.write(
      testing::json_answer(code, std::get<json>(answer).dump(), warning_headers(warnings)));
}

bool ServedApi::answer_watch(Connection& connection, const FrontRequest& request,
                             const std::stop_token& stop) {
  std::stop_source over;
  const std::stop_callback ends_too(stop, [&over] { over.request_stop(); });
  const std::chrono::seconds limit(std::stoi("0" + request.parameter("timeoutSeconds")));
  const std::jthread timer([&over, limit](const std::stop_token& ended) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, ended, limit, [] { return false; });
    over.request_stop();
  });
  if (!connection.socket.write(kStreamHead)) return false;
  const std::string& target = request.http.target;
  server_.stream(path_of(target), target.substr(target.find('?') + 1), over.get_token(),
                 [&connection](std::string_view line) {
                   return connection.socket.write_chunk(std::string(line) + "\n");
                 });
  return connection.socket.write_chunk("");
}

}  // namespace lockstep::control
