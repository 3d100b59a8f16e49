#include "tests/support/fault_proxy/fault_proxy.h"

#include <stdexcept>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "operator/kube/line_splitter.h"
#include "operator/kube/tls.h"

namespace lockstep::testing {

using kube::MutexLock;

namespace {

constexpr const char* kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
constexpr const char* kExpiredEvent =
    R"({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",)"
    R"("message":"too old resource version","reason":"Expired","code":410}})"
    "\n";
constexpr std::chrono::seconds kUpstreamTimeout{65};
constexpr int kNoLimit = 1'000'000'000;
constexpr std::size_t kMaxLineBytes = 16 * 1024 * 1024;

// Streams that are open when the fault begins end with it.
bool ends_streams(Fault fault) {
  switch (fault) {
    case Fault::kCutWatches:
    case Fault::kTimeTravel:
    case Fault::kExpiredWatches:
    case Fault::kTooManyRequests:
    case Fault::kInternalError:
    case Fault::kUnavailable:
    case Fault::kUnauthorized:
    case Fault::kForbidden:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "none";
    case Fault::kLostResponses:
      return "lost responses";
    case Fault::kDelayedWatches:
      return "delayed watches";
    case Fault::kCutWatches:
      return "cut watches";
    case Fault::kTimeTravel:
      return "time travel";
    case Fault::kExpiredWatches:
      return "410 storm";
    case Fault::kTooManyRequests:
      return "429";
    case Fault::kInternalError:
      return "500";
    case Fault::kUnavailable:
      return "503";
    case Fault::kRefused:
      return "connection refused";
    case Fault::kHalfOpen:
      return "half-open";
    case Fault::kUnauthorized:
      return "token expired";
    case Fault::kForbidden:
      return "rights dropped";
  }
  return "?";
}

FaultProxy::FaultProxy(const kube::ClientConfig& server, uint64_t seed) : random_(seed) {
  auto endpoint = std::make_shared<kube::Endpoint>();
  endpoint->url = kube::parse_server_url(server.server).value();
  endpoint->tls.ca_pem = server.tls.ca_pem;
  endpoint->material = kube::load_tls(endpoint->tls).value();
  endpoint->user_agent = "fault-proxy";
  endpoint->connect_timeout = std::chrono::seconds(10);
  endpoint_ = std::move(endpoint);
  listen_again();
  acceptor_ = std::jthread([this](const std::stop_token& stop) { accept_all(stop); });
}

FaultProxy::~FaultProxy() {
  acceptor_.request_stop();
  acceptor_.join();
  stop_listening();
  std::map<std::shared_ptr<Connection>, std::jthread> connections;
  {
    const MutexLock lock(mutex_);
    connections.swap(connections_);
  }
  for (const auto& [connection, thread] : connections) {
    connection->stop.request_stop();
    connection->socket.cut();
  }
}

void FaultProxy::listen_again() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port_));
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd, raw, size) != 0 || listen(fd, 64) != 0 || getsockname(fd, raw, &size) != 0) {
    close(fd);
    throw std::runtime_error("no loopback port");
  }
  port_ = ntohs(address.sin_port);
  listener_ = fd;
}

void FaultProxy::stop_listening() {
  const int fd = listener_.exchange(-1);
  if (fd >= 0) close(fd);
}

void FaultProxy::begin(Fault fault, const std::string& detail) {
  std::vector<std::shared_ptr<Connection>> all;
  Fault before = Fault::kNone;
  {
    const MutexLock lock(mutex_);
    before = std::exchange(fault_, fault);
    detail_ = detail;
    for (const auto& [connection, thread] : connections_) all.push_back(connection);
  }
  if (fault == Fault::kRefused) stop_listening();
  if (before == Fault::kRefused && listener_ < 0) listen_again();
  for (const std::shared_ptr<Connection>& connection : all) {
    if (fault == Fault::kHalfOpen) connection->dead = true;
    // The past is over for those who were shown it.
    const bool over = ends_streams(fault) || before == Fault::kTimeTravel;
    if (fault != Fault::kRefused && !(over && connection->streams)) continue;
    connection->stop.request_stop();
    connection->socket.cut();
  }
}

ProxyCounts FaultProxy::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

Fault FaultProxy::fault() const {
  const MutexLock lock(mutex_);
  return fault_;
}

std::string FaultProxy::detail() const {
  const MutexLock lock(mutex_);
  return detail_;
}

int FaultProxy::choose(int bound) {
  const MutexLock lock(mutex_);
  return static_cast<int>(random_() % static_cast<uint64_t>(bound));
}

void FaultProxy::count_hit() {
  const MutexLock lock(mutex_);
  ++counts_.hit;
}

void FaultProxy::accept_all(const std::stop_token& stop) {
  constexpr int kLookEveryMs = 10;
  while (!stop.stop_requested()) {
    pollfd listening{listener_, POLLIN, 0};  // a negative descriptor is passed over
    const int ready = poll(&listening, 1, kLookEveryMs);
    const int fd = ready > 0 ? accept4(listening.fd, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    const MutexLock lock(mutex_);
    std::erase_if(connections_, [](const auto& entry) { return entry.first->ended.load(); });
    if (fd < 0) continue;
    const auto connection = std::make_shared<Connection>(fd);
    connections_.emplace(connection, std::jthread([this, connection] {
                           serve(*connection);
                           connection->ended = true;
                         }));
  }
}

void FaultProxy::serve(Connection& connection) {
  FrontRequest request;
  while (connection.socket.read(request)) {
    {
      const MutexLock lock(mutex_);
      if (fault_ != Fault::kNone) ++counts_.in_fault;
      if (kube::is_write(request.http)) ++counts_.writes;
    }
    if (!answer(connection, request)) break;
  }
  connection.socket.reset_at_end();
  connection.socket.cut();
}

bool FaultProxy::answer(Connection& connection, const FrontRequest& request) {
  const Fault fault = this->fault();
  if (fault == Fault::kHalfOpen) connection.dead = true;
  if (connection.dead) {
    count_hit();
    connection.socket.await_hang_up();
    return false;
  }
  const std::string refusal = refusal_of(fault, request);
  if (!refusal.empty()) {
    count_hit();
    return connection.socket.write(refusal);
  }
  if (request.is_watch()) return answer_stream(connection, request, fault);
  const bool loses =
      fault == Fault::kLostResponses && kube::is_write(request.http) && choose(2) == 0;
  return pass_on(connection, request, loses);
}

std::string FaultProxy::refusal_of(Fault fault, const FrontRequest& request) {
  switch (fault) {
    case Fault::kTooManyRequests:
      return status_answer(429, "TooManyRequests", "too many requests", "Retry-After: 1\r\n");
    case Fault::kInternalError:
      return status_answer(500, "InternalError", "etcdserver: leader changed");
    case Fault::kUnavailable:
      return status_answer(503, "ServiceUnavailable", "the server is shutting down");
    case Fault::kForbidden:
      return status_answer(403, "Forbidden", "RBAC: no role is bound");
    case Fault::kUnauthorized:
      return request.token == detail()
                 ? ""
                 : status_answer(401, "Unauthorized", "the token has expired");
    case Fault::kExpiredWatches:
      if (!request.is_watch() || request.is_initial() || choose(2) == 0) return "";
      return status_answer(410, "Expired", "too old resource version");
    case Fault::kTimeTravel:
      // The past is told by lists only.
      if (request.is_initial()) return status_answer(422, "Invalid", "forbidden for watch");
      if (!request.is_watch() || request.parameter("resourceVersion") == detail()) return "";
      return status_answer(410, "Expired", "too large or too old a resource version");
    default:
      return "";
  }
}

kube::HttpConnection& FaultProxy::upstream_of(Connection& connection) const {
  if (!connection.upstream || !connection.upstream->is_reusable()) {
    connection.upstream = kube::HttpConnection::make(endpoint_).value();
  }
  return *connection.upstream;
}

bool FaultProxy::pass_on(Connection& connection, const FrontRequest& request, bool loses_answer) {
  kube::HttpRequest http = request.http;
  const bool is_list = http.method == "GET" && http.target.find("limit=") != std::string::npos;
  if (is_list && fault() == Fault::kTimeTravel && request.parameter("continue").empty()) {
    count_hit();
    http.target += "&resourceVersionMatch=Exact&resourceVersion=" + detail();
  }
  kube::SendOptions options;
  options.token = request.token;
  options.silence = kUpstreamTimeout;
  options.total = kUpstreamTimeout;
  options.stop = connection.stop.get_token();
  const kube::SendOutcome outcome = upstream_of(connection).send(http, options);
  if (outcome.kind != kube::SendOutcome::Kind::kAnswered) return false;
  if (loses_answer && outcome.response.status < 300) {
    count_hit();
    return false;
  }
  return connection.socket.write(json_answer(outcome.response.status, outcome.response.body));
}

bool FaultProxy::answer_stream(Connection& connection, const FrontRequest& request, Fault fault) {
  connection.streams = true;
  if (fault == Fault::kExpiredWatches && !request.is_initial()) {
    count_hit();
    return connection.socket.write(kStreamHead) && connection.socket.write_chunk(kExpiredEvent) &&
           connection.socket.write_chunk("");
  }
  if (fault == Fault::kTimeTravel) {
    count_hit();
    connection.socket.write(kStreamHead);
    connection.socket.await_hang_up();
    return false;
  }
  int lines_left = kNoLimit;
  if (fault == Fault::kCutWatches && !request.is_initial()) lines_left = choose(4);
  kube::SendOptions options;
  options.token = request.token;
  options.silence = kube::watch_read_timeout(request.http.target);
  options.stop = connection.stop.get_token();
  bool has_head = true;
  kube::LineSplitter lines(kMaxLineBytes);
  const kube::SendOutcome outcome = kube::HttpConnection::make(endpoint_).value()->stream(
      request.http, options,
      [&](int status) { has_head = status != 200 || connection.socket.write(kStreamHead); },
      [&](std::string_view bytes) {
        return has_head && lines.feed(bytes, [&](std::string_view line) {
          return pass_line(connection, line, lines_left);
        });
      });
  if (connection.dead) connection.socket.await_hang_up();
  if (outcome.kind != kube::SendOutcome::Kind::kAnswered || connection.dead) return false;
  if (outcome.response.status != 200) {
    return connection.socket.write(json_answer(outcome.response.status, outcome.response.body));
  }
  return connection.socket.write_chunk("");
}

bool FaultProxy::pass_line(Connection& connection, std::string_view line, int& lines_left) {
  if (connection.dead) return true;  // swallowed
  if (fault() == Fault::kDelayedWatches) {
    count_hit();
    std::this_thread::sleep_for(std::chrono::milliseconds(choose(600)));
  }
  if (lines_left-- > 0) return connection.socket.write_chunk(std::string(line) + "\n");
  count_hit();
  if (choose(2) == 0) connection.socket.write_chunk(line.substr(0, line.size() / 2));
  return false;
}

}  // namespace lockstep::testing
