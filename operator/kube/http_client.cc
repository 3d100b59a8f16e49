#include "operator/kube/http_client.h"

#include <csignal>
#include <deque>
#include <utility>

#include "operator/kube/api_error.h"
#include "operator/kube/http_connection.h"
#include "operator/kube/line_splitter.h"
#include "operator/kube/mutex.h"
#include "operator/kube/token_source.h"

namespace lockstep::kube {
namespace {

using common::Result;
using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using ConnectionPtr = std::unique_ptr<HttpConnection>;

// Idle connections, the one used last on top.
class ConnectionPool {
 public:
  // A connection that is still good; null if there is none.
  ConnectionPtr take(Clock::time_point now) {
    const MutexLock lock(mutex_);
    while (!idle_.empty()) {
      Idle last = std::move(idle_.back());
      idle_.pop_back();
      if (now - last.since < kMaxIdle && last.connection->is_reusable()) {
        return std::move(last.connection);
      }
    }
    return nullptr;
  }

  void give_back(ConnectionPtr connection, Clock::time_point now) {
    const MutexLock lock(mutex_);
    idle_.push_back({std::move(connection), now});
    if (idle_.size() > kMaxConnections) idle_.pop_front();
  }

 private:
  struct Idle {
    ConnectionPtr connection;
    Clock::time_point since;
  };
  static constexpr std::size_t kMaxConnections = 4;
  static constexpr std::chrono::seconds kMaxIdle{60};  // the server closes after 90 s

  Mutex mutex_;
  std::deque<Idle> idle_ GUARDED_BY(mutex_);
};

class HttpClient final : public Client {
 public:
  HttpClient(const ClientConfig& config, Endpoint endpoint, HttpClientOptions options)
      : endpoint_(std::move(endpoint)),
        options_(std::move(options)),
        tokens_(config.token, config.token_file, read_file) {}

  ApiResult<json> get(const ResourcePath& path) override { return call(get_request(path)); }
  ApiResult<json> list(const ResourcePath& path, const ListOptions& options) override {
    return call(list_request(path, options));
  }
  ApiResult<json> create(const ResourcePath& path, const json& body) override {
    return call(create_request(path, body, options_.field_manager));
  }
  ApiResult<json> replace(const ResourcePath& path, const json& body) override {
    return call(replace_request(path, body, options_.field_manager));
  }
  ApiResult<json> patch(const ResourcePath& path, PatchType type, const json& body) override {
    return call(patch_request(path, type, body, options_.field_manager));
  }
  ApiResult<json> remove(const ResourcePath& path, const DeleteOptions& options) override {
    return call(delete_request(path, options));
  }
  std::optional<ApiError> stream(const ResourcePath& path, const std::string& query,
                                 std::stop_token stop,
                                 const std::function<bool(std::string_view)>& on_line) override;

 private:
  ApiResult<json> call(const HttpRequest& request);
  SendOutcome send(const HttpRequest& request, const std::string& token);
  ApiError refused(const HttpRequest& request, const HttpResponse& response);
  void observe(const HttpRequest& request, const std::string& code, Clock::time_point begin) const;

  const Endpoint endpoint_;
  const HttpClientOptions options_;
  TokenSource tokens_;
  ConnectionPool pool_;
};

ApiResult<json> HttpClient::call(const HttpRequest& request) {
  const Result<std::string> token = tokens_.token(Clock::now());
  if (!token) return ApiError{token.error(), 0, "", std::nullopt};
  SendOutcome outcome = send(request, *token);
  // Nothing was changed by a read, so it may go out once more over a new connection.
  if (outcome.kind == SendOutcome::Kind::kReset && !is_write(request)) {
    outcome = send(request, *token);
  }
  if (outcome.kind != SendOutcome::Kind::kAnswered) return no_answer(request, outcome.why);
  const HttpResponse& response = outcome.response;
  if (response.status < 200 || response.status > 299) return refused(request, response);
  json body = json::parse(response.body, nullptr, false);
  if (!body.is_object()) {
    ApiError error = no_answer(request, "the answer is not JSON");
    // Whatever said 2xx is no API server, or the answer was damaged on its way.
    error.error.code = common::ErrorCode::kInternal;
    return error;
  }
  return body;
}

SendOutcome HttpClient::send(const HttpRequest& request, const std::string& token) {
  const Clock::time_point begin = Clock::now();
  SendOutcome outcome;
  ConnectionPtr connection = pool_.take(begin);
  if (!connection) {
    Result<ConnectionPtr> made = HttpConnection::make(endpoint_);
    if (!made) {
      outcome.why = made.error().message;
      return outcome;
    }
    connection = std::move(made).value();
  }
  SendOptions send_options;
  send_options.token = token;
  send_options.silence = options_.request_timeout;
  send_options.total = options_.request_timeout;
  outcome = connection->send(request, send_options);
  const bool answered = outcome.kind == SendOutcome::Kind::kAnswered;
  observe(request, answered ? std::to_string(outcome.response.status) : "<error>", begin);
  if (answered && connection->is_reusable()) pool_.give_back(std::move(connection), Clock::now());
  return outcome;
}

std::optional<ApiError> HttpClient::stream(const ResourcePath& path, const std::string& query,
                                           std::stop_token stop,
                                           const std::function<bool(std::string_view)>& on_line) {
  constexpr std::size_t kMaxLineBytes = 16 * 1024 * 1024;  // etcd's largest object is 1.5 MiB
  const HttpRequest request = watch_request(path, query);
  const Clock::time_point begin = Clock::now();
  const Result<std::string> token = tokens_.token(begin);
  if (!token) return ApiError{token.error(), 0, "", std::nullopt};
  Result<ConnectionPtr> connection = HttpConnection::make(endpoint_);
  if (!connection) return no_answer(request, connection.error().message);

  LineSplitter lines(kMaxLineBytes);
  bool left = false;
  SendOptions send_options;
  send_options.token = *token;
  send_options.silence = watch_read_timeout(query);
  bool observed = false;
  const SendOutcome outcome = (*connection)
                                  ->stream(
                                      request, send_options, stop,
                                      [&](int status) {
                                        observed = true;
                                        observe(request, std::to_string(status), begin);
                                      },
                                      [&](std::string_view bytes) {
                                        return lines.feed(bytes, [&](std::string_view line) {
                                          left = !on_line(line);
                                          return !left;
                                        });
                                      });
  if (stop.stop_requested() || left) return std::nullopt;
  if (!observed) observe(request, "<error>", begin);
  if (lines.is_too_long()) return no_answer(request, "a line of the watch is too long");
  if (outcome.kind != SendOutcome::Kind::kAnswered) return no_answer(request, outcome.why);
  if (outcome.response.status != 200) return refused(request, outcome.response);
  return std::nullopt;
}

ApiError HttpClient::refused(const HttpRequest& request, const HttpResponse& response) {
  if (response.status == 401) tokens_.invalidate();
  return decode_error(request, response);
}

void HttpClient::observe(const HttpRequest& request, const std::string& code,
                         Clock::time_point begin) const {
  if (!options_.observer.on_request) return;
  const std::string host = endpoint_.url.host + ":" + std::to_string(endpoint_.url.port);
  options_.observer.on_request(request.method, code, host, Clock::now() - begin);
}

void ignore_sigpipe() {
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

}  // namespace

Result<std::unique_ptr<Client>> make_http_client(const ClientConfig& config,
                                                 HttpClientOptions options) {
  Endpoint endpoint;
  ASSIGN_OR_RETURN(endpoint.url, parse_server_url(config.server));
  endpoint.tls = config.tls;
  ASSIGN_OR_RETURN(endpoint.material, load_tls(config.tls));
  endpoint.user_agent = options.user_agent;
  endpoint.connect_timeout = options.connect_timeout;
  RETURN_IF_ERROR(HttpConnection::make(endpoint));  // refuses bad TLS settings now, not later
  ignore_sigpipe();
  return std::unique_ptr<Client>(
      std::make_unique<HttpClient>(config, std::move(endpoint), std::move(options)));
}

}  // namespace lockstep::kube
