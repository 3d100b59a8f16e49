#include "operator/kube/http_connection.h"

#include <charconv>
#include <utility>

#include <fcntl.h>
#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "operator/kube/mutex.h"

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxErrorBody = 256 * 1024;  // of a refused watch

// A dead peer is noticed within about 30 s, idle or not.
void set_socket_options(int fd) {
  const auto set = [fd](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof value);  // best effort: an option missing is no harm
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

// Wakes a thread that waits on a socket, from another thread.
// Note [Cancelling a call]: httplib's own stop() waits for a lock that is held while it connects,
// and does nothing between two requests. Shutting the socket down works at any time; the duplicate
// descriptor keeps its number from being given to another file meanwhile.
class Wire {
 public:
  ~Wire() { reset(-1); }

  void attach(int fd) { reset(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }
  void detach() { reset(-1); }
  void cut() {
    const MutexLock lock(mutex_);
    if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
  }

 private:
  void reset(int fd) {
    const MutexLock lock(mutex_);
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

  Mutex mutex_;
  int fd_ GUARDED_BY(mutex_) = -1;
};

httplib::Request to_httplib(const Endpoint& endpoint, const HttpRequest& request,
                            const std::string& token) {
  httplib::Request out;
  out.method = request.method;
  out.path = endpoint.url.prefix + request.target;
  out.body = request.body;
  out.set_header("User-Agent", endpoint.user_agent);
  out.set_header("Accept", "application/json");
  out.set_header("Accept-Encoding", "identity");
  if (!request.content_type.empty()) out.set_header("Content-Type", request.content_type);
  if (!token.empty()) out.set_header("Authorization", "Bearer " + token);
  return out;
}

bool is_cut(httplib::Error error) {
  return error == httplib::Error::Read || error == httplib::Error::Write;
}

}  // namespace

struct HttpConnection::State {
  explicit State(std::shared_ptr<const Endpoint> e) : endpoint(std::move(e)) {}

  // Sends and receives until the answer's end, an error, or the stop.
  SendOutcome exchange(httplib::Request& request, const SendOptions& options, bool& got_headers);
  SendOutcome wait_for_answer(httplib::Request& request, const SendOptions& options,
                              bool& got_headers) const;

  const std::shared_ptr<const Endpoint> endpoint;
  Wire wire;
  std::unique_ptr<httplib::ClientImpl> http;
};

HttpConnection::HttpConnection(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpConnection::~HttpConnection() = default;

Result<std::unique_ptr<HttpConnection>> HttpConnection::make(
    std::shared_ptr<const Endpoint> shared_endpoint) {
  auto state = std::make_unique<State>(std::move(shared_endpoint));
  const Endpoint& endpoint = *state->endpoint;
  const ServerUrl& url = endpoint.url;
  if (url.tls) {
    // The name to verify is httplib's host; where to connect is looked up in its address map.
    const std::string& name =
        endpoint.tls.server_name.empty() ? url.host : endpoint.tls.server_name;
    auto http = std::make_unique<httplib::SSLClient>(name, url.port);
    RETURN_IF_ERROR(apply_tls(endpoint.material, endpoint.tls, name, http->ssl_context()));
    http->enable_server_certificate_verification(!endpoint.tls.insecure_skip_verify);
    // With neither file nor folder httplib adds the system's authorities to ours, and any of those
    // could then vouch for the API server. This folder is empty for ever.
    if (endpoint.material.trusted) http->set_ca_cert_path("", "/dev/null");
    if (name != url.host) http->set_hostname_addr_map({{name, url.host}});
    state->http = std::move(http);
  } else {
    state->http = std::make_unique<httplib::ClientImpl>(url.host, url.port);
  }
  httplib::ClientImpl& http = *state->http;
  http.set_keep_alive(true);
  http.set_url_encode(false);  // targets are encoded already
  http.set_connection_timeout(endpoint.connect_timeout);
  http.set_write_timeout(endpoint.connect_timeout);
  http.set_socket_options([wire = &state->wire](socket_t fd) {
    set_socket_options(fd);
    wire->attach(fd);
  });
  return std::unique_ptr<HttpConnection>(new HttpConnection(std::move(state)));
}

SendOutcome HttpConnection::State::exchange(httplib::Request& request, const SendOptions& options,
                                            bool& got_headers) {
  SendOutcome out;
  if (!options.stop.stop_requested()) {
    // See Note [Cancelling a call].
    const std::stop_callback cut(options.stop, [this] { wire.cut(); });
    out = wait_for_answer(request, options, got_headers);
  }
  if (options.stop.stop_requested() && out.kind != SendOutcome::Kind::kAnswered) {
    out.kind = SendOutcome::Kind::kCancelled;
    out.why = "given up";
  }
  return out;
}

SendOutcome HttpConnection::State::wait_for_answer(httplib::Request& request,
                                                   const SendOptions& options,
                                                   bool& got_headers) const {
  http->set_read_timeout(options.silence);
  const Clock::time_point begin = Clock::now();
  httplib::Response response;
  httplib::Error error = httplib::Error::Success;
  const bool ok = http->send(request, response, error);
  SendOutcome out;
  out.response.status = response.status;
  out.response.retry_after = response.get_header_value("Retry-After");
  if (ok) {
    out.kind = SendOutcome::Kind::kAnswered;
    return out;
  }
  const bool timed_out = Clock::now() - begin >= options.silence;
  out.why = httplib::to_string(error);
  if (error == httplib::Error::Canceled) {
    out.kind = SendOutcome::Kind::kCancelled;
  } else if (is_cut(error) && timed_out) {
    out.why = "timed out";
  } else if (is_cut(error) && !got_headers) {
    out.kind = SendOutcome::Kind::kReset;
    out.why = "the connection was closed";
  } else if (error == httplib::Error::SSLServerVerification) {
    out.untrusted = true;
    out.why = "the server's certificate is not trusted";
    if (const auto* tls = dynamic_cast<httplib::SSLClient*>(http.get())) {
      out.why +=
          std::string(": ") + X509_verify_cert_error_string(tls->get_openssl_verify_result());
    }
  }
  return out;
}

SendOutcome HttpConnection::send(const HttpRequest& request, const SendOptions& options) {
  httplib::Request http_request = to_httplib(*state_->endpoint, request, options.token);
  const Clock::time_point deadline = Clock::now() + options.total;
  std::string body;
  bool got_headers = false;
  bool too_late = false;
  http_request.response_handler = [&](const httplib::Response& /*response*/) {
    return got_headers = true;
  };
  http_request.content_receiver = [&](const char* data, std::size_t size, uint64_t /*offset*/,
                                      uint64_t /*total*/) {
    body.append(data, size);
    too_late = options.total.count() > 0 && Clock::now() > deadline;
    return !too_late;
  };
  SendOutcome out = state_->exchange(http_request, options, got_headers);
  out.response.body = std::move(body);
  if (too_late) {
    out.kind = SendOutcome::Kind::kFailed;
    out.why = "timed out";
  }
  return out;
}

SendOutcome HttpConnection::stream(const HttpRequest& request, const SendOptions& options,
                                   const std::function<void(int status)>& on_status,
                                   const std::function<bool(std::string_view)>& on_body) {
  httplib::Request http_request = to_httplib(*state_->endpoint, request, options.token);
  const std::stop_token& stop = options.stop;
  std::string error_body;
  int status = 0;
  bool got_headers = false;
  http_request.response_handler = [&](const httplib::Response& response) {
    got_headers = true;
    status = response.status;
    on_status(status);
    return !stop.stop_requested();
  };
  http_request.content_receiver = [&](const char* data, std::size_t size, uint64_t /*offset*/,
                                      uint64_t /*total*/) {
    if (stop.stop_requested()) return false;
    if (status == 200) return on_body(std::string_view(data, size));
    error_body.append(data, size);
    return error_body.size() <= kMaxErrorBody;
  };
  SendOutcome out = state_->exchange(http_request, options, got_headers);
  out.response.body = std::move(error_body);
  if (stop.stop_requested()) out.kind = SendOutcome::Kind::kCancelled;
  return out;
}

const std::shared_ptr<const Endpoint>& HttpConnection::endpoint() const {
  return state_->endpoint;
}

bool HttpConnection::is_reusable() const {
  pollfd quiet{state_->http->socket(), POLLIN | POLLRDHUP, 0};
  return state_->http->is_socket_open() != 0 && poll(&quiet, 1, 0) == 0;
}

Result<ServerUrl> parse_server_url(const std::string& url) {
  const auto bad = [&url](const std::string& why) {
    return Error{ErrorCode::kInvalidArgument, "server '" + url + "': " + why,
                 "write it as https://HOST:PORT"};
  };
  ServerUrl out;
  std::size_t at = url.find("://");
  const std::string scheme = url.substr(0, at);
  if (at == std::string::npos || (scheme != "https" && scheme != "http")) {
    return bad("must begin with https:// or http://");
  }
  out.tls = scheme == "https";
  at += 3;
  const std::size_t end = std::min(url.find('/', at), url.size());
  out.prefix = url.substr(end);
  while (!out.prefix.empty() && out.prefix.back() == '/') out.prefix.pop_back();
  if (out.prefix.find_first_of("?#") != std::string::npos) return bad("must not have a query");
  std::string authority = url.substr(at, end - at);
  if (authority.find_first_of("@?#") != std::string::npos) return bad("must be a host and a port");
  std::size_t colon = authority.rfind(':');
  if (!authority.empty() && authority.front() == '[') {
    const std::size_t close = authority.find(']');
    if (close == std::string::npos) return bad("has no closing bracket");
    out.host = authority.substr(1, close - 1);
    colon = close + 1 < authority.size() ? close + 1 : std::string::npos;
    if (colon != std::string::npos && authority[colon] != ':') return bad("has a malformed host");
  } else {
    out.host = authority.substr(0, colon);
  }
  if (out.host.empty()) return bad("has no host");
  out.port = out.tls ? 443 : 80;
  if (colon == std::string::npos) return out;
  const char* first = authority.data() + colon + 1;
  const char* last = authority.data() + authority.size();
  const auto [rest, error] = std::from_chars(first, last, out.port);
  if (error != std::errc() || rest != last || out.port < 1 || out.port > 65535) {
    return bad("has a malformed port");
  }
  return out;
}

}  // namespace lockstep::kube
