#include "operator/kube/http_connection.h"

#include <functional>
#include <memory>
#include <optional>
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
    is_cut_ = true;
    if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
  }
  // True from the first cut on, also if there was no socket yet.
  bool is_cut() const {
    const MutexLock lock(mutex_);
    return is_cut_;
  }

 private:
  void reset(int fd) {
    const MutexLock lock(mutex_);
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

  mutable Mutex mutex_;
  int fd_ GUARDED_BY(mutex_) = -1;
  bool is_cut_ GUARDED_BY(mutex_) = false;
};

// What becomes of connecting, beyond httplib's own.
struct Dial {
  Wire wire;
  std::optional<Proxy> tunnel;  // to be asked for a connection to `target` first
  std::string target;           // "host:port"
  std::chrono::milliseconds timeout{0};
  std::string why;  // the tunnel was not opened
};

// An httplib client that goes through a proxy of ours (httplib's would ask for the name to verify
// instead of the host), and does not begin once the wire is cut.
template <typename Base>
class DialingClient final : public Base {
 public:
  DialingClient(const std::string& name, int port, Dial& dial) : Base(name, port), dial_(dial) {}

 private:
  using Socket = httplib::ClientImpl::Socket;

  bool create_and_connect_socket(Socket& socket, httplib::Error& error) override {
    if (dial_.wire.is_cut() || !connect(socket, error) || dial_.wire.is_cut()) {
      if (socket.is_open()) httplib::detail::close_socket(socket.sock);
      socket.sock = INVALID_SOCKET;
      if (dial_.wire.is_cut()) error = httplib::Error::Canceled;
      return false;
    }
    return true;
  }

  bool connect(Socket& socket, httplib::Error& error) {
    if (!dial_.tunnel) return httplib::ClientImpl::create_and_connect_socket(socket, error);
    const Clock::time_point deadline = Clock::now() + dial_.timeout;
    const auto seconds = static_cast<time_t>(dial_.timeout.count() / 1000);
    const auto micros = static_cast<time_t>(dial_.timeout.count() % 1000 * 1000);
    socket.sock = httplib::detail::create_client_socket(
        dial_.tunnel->host, "", dial_.tunnel->port, AF_UNSPEC, true, this->socket_options_, seconds,
        micros, seconds, micros, seconds, micros, "", error);
    if (!socket.is_open()) return false;
    const Result<void> opened = open_tunnel(socket.sock, *dial_.tunnel, dial_.target, deadline);
    if (opened) return true;
    dial_.why = opened.error().message;
    error = httplib::Error::Connection;
    return false;
  }

  Dial& dial_;
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
  // A tunnel has been asked for with it; without one every request has to say it.
  if (!endpoint.url.tls && endpoint.proxy && !endpoint.proxy->authorization.empty()) {
    out.set_header("Proxy-Authorization", endpoint.proxy->authorization);
  }
  return out;
}

// Lets the library ask for the body when it is about to send it. `may_send` and `refused` outlive
// the request.
void ask_before_body(httplib::Request& request, const std::function<bool()>& may_send,
                     bool& refused) {
  const auto body = std::make_shared<const std::string>(std::move(request.body));
  request.body.clear();
  request.content_length_ = body->size();
  request.content_provider_ = [body, &may_send, &refused](size_t offset, size_t length,
                                                          httplib::DataSink& sink) {
    refused = !may_send();
    return !refused && sink.write(body->data() + offset, length);
  };
}

std::string host_and_port(const ServerUrl& url) {
  const bool is_ipv6 = url.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
}

// In order. The library has decoded %XX in them.
std::vector<std::string> values_of(const httplib::Response& response, const char* header) {
  std::vector<std::string> values;
  const auto [begin, end] = response.headers.equal_range(header);
  for (auto it = begin; it != end; ++it) values.push_back(it->second);
  return values;
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
                              bool& got_headers);

  const std::shared_ptr<const Endpoint> endpoint;
  Dial dial;
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
    state->dial.tunnel = endpoint.proxy;
    state->dial.target = host_and_port(url);
    state->dial.timeout = endpoint.connect_timeout;
    auto http = std::make_unique<DialingClient<httplib::SSLClient>>(name, url.port, state->dial);
    RETURN_IF_ERROR(apply_tls(endpoint.material, endpoint.tls, name, http->ssl_context()));
    http->enable_server_certificate_verification(!endpoint.tls.insecure_skip_verify);
    // With neither file nor folder httplib adds the system's authorities to ours, and any of those
    // could then vouch for the API server. This folder is empty for ever.
    if (endpoint.material.trusted) http->set_ca_cert_path("", "/dev/null");
    if (name != url.host) http->set_hostname_addr_map({{name, url.host}});
    state->http = std::move(http);
  } else {
    state->http =
        std::make_unique<DialingClient<httplib::ClientImpl>>(url.host, url.port, state->dial);
    if (endpoint.proxy) state->http->set_proxy(endpoint.proxy->host, endpoint.proxy->port);
  }
  httplib::ClientImpl& http = *state->http;
  http.set_keep_alive(true);
  http.set_url_encode(false);  // targets are encoded already
  http.set_connection_timeout(endpoint.connect_timeout);
  http.set_write_timeout(endpoint.connect_timeout);
  http.set_socket_options([wire = &state->dial.wire](socket_t fd) {
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
    const std::stop_callback cut(options.stop, [this] { dial.wire.cut(); });
    out = wait_for_answer(request, options, got_headers);
  }
  if (options.stop.stop_requested() && out.kind != SendOutcome::Kind::kAnswered) {
    out.kind = SendOutcome::Kind::kCancelled;
    out.why = "given up";
  }
  return out;
}

SendOutcome HttpConnection::State::wait_for_answer(httplib::Request& request,
                                                   const SendOptions& options, bool& got_headers) {
  dial.why.clear();
  http->set_read_timeout(options.silence);
  const Clock::time_point begin = Clock::now();
  httplib::Response response;
  httplib::Error error = httplib::Error::Success;
  const bool ok = http->send(request, response, error);
  SendOutcome out;
  out.response.status = response.status;
  out.response.retry_after = response.get_header_value("Retry-After");
  out.response.warnings = values_of(response, "Warning");
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
  } else if (!dial.why.empty()) {
    out.why = dial.why;
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
  bool fenced = false;
  if (options.may_send) ask_before_body(http_request, options.may_send, fenced);
  SendOutcome out = state_->exchange(http_request, options, got_headers);
  out.response.body = std::move(body);
  out.fenced = fenced;
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

}  // namespace lockstep::kube
