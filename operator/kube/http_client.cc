#include "operator/kube/http_client.h"

#include <deque>
#include <utility>

#include "operator/kube/api_error.h"
#include "operator/kube/credentials.h"
#include "operator/kube/http_connection.h"
#include "operator/kube/line_splitter.h"
#include "operator/kube/mutex.h"
#include "operator/kube/proxy.h"
#include "operator/kube/warning.h"
#include "runtime/common/broken_pipes.h"

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
  // A connection to `endpoint` that is still good; null if there is none. Connections made with
  // older certificates are dropped on the way.
  ConnectionPtr take(const std::shared_ptr<const Endpoint>& endpoint, Clock::time_point now) {
    const MutexLock lock(mutex_);
    while (!idle_.empty()) {
      Idle last = std::move(idle_.back());
      idle_.pop_back();
      if (last.connection->endpoint() == endpoint && now - last.since < kMaxIdle &&
          last.connection->is_reusable()) {
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
  HttpClient(std::unique_ptr<Credentials> credentials, const ServerUrl& url,
             HttpClientOptions options)
      : credentials_(std::move(credentials)),
        host_(url.host + ":" + std::to_string(url.port)),
        options_(std::move(options)) {}

  ApiResult<json> get(const ResourcePath& path) override {
    return call(get_request(path), options_.stop);
  }
  ApiResult<json> list(const ResourcePath& path, const ListOptions& options,
                       std::stop_token stop) override {
    return call(list_request(path, options), stop);
  }
  using Client::create;
  ApiResult<json> create(const ResourcePath& path, const json& body, Warnings& warnings) override {
    return call(create_request(path, body, options_.field_manager), options_.stop, &warnings);
  }
  ApiResult<json> replace(const ResourcePath& path, const json& body) override {
    return call(replace_request(path, body, options_.field_manager), options_.stop);
  }
  ApiResult<json> patch(const ResourcePath& path, PatchType type, const json& body) override {
    return call(patch_request(path, type, body, options_.field_manager), options_.stop);
  }
  ApiResult<json> remove(const ResourcePath& path, const DeleteOptions& options) override {
    return call(delete_request(path, options), options_.stop);
  }
  std::optional<ApiError> stream(const ResourcePath& path, const std::string& query,
                                 std::stop_token stop,
                                 const std::function<bool(std::string_view)>& on_line) override;

 private:
  // `warnings`: where to add those of the answer; null = nowhere.
  ApiResult<json> call(const HttpRequest& request, const std::stop_token& stop,
                       Warnings* warnings = nullptr);
  SendOutcome send(const HttpRequest& request, const Identity& identity,
                   const std::stop_token& stop);
  void observe(const HttpRequest& request, const std::string& code, Clock::time_point begin) const;
  bool is_fenced(const HttpRequest& request) const {
    return is_write(request) && options_.may_write && !options_.may_write();
  }

  const std::unique_ptr<Credentials> credentials_;
  const std::string host_;
  const HttpClientOptions options_;
  ConnectionPool pool_;
};

// True if nothing came of the request because of whom we trust or who we are.
bool is_about_credentials(const SendOutcome& outcome) {
  return outcome.untrusted ||
         (outcome.kind == SendOutcome::Kind::kAnswered && outcome.response.status == 401);
}

ApiError without_credentials(const common::Error& why) {
  return {why, 0, "", std::nullopt};
}

ApiError fenced_off() {
  return {{common::ErrorCode::kUnavailable, "not sent: this process does not lead any more", ""},
          0,
          kFencedReason,
          std::nullopt};
}

ApiResult<json> HttpClient::call(const HttpRequest& request, const std::stop_token& stop,
                                 Warnings* warnings) {
  if (is_fenced(request)) return fenced_off();
  const Result<Identity> identity = credentials_->current(Clock::now(), stop);
  if (!identity) return without_credentials(identity.error());
  SendOutcome outcome = send(request, *identity, stop);
  // Nothing was changed by a read, so it may go out once more over a new connection.
  if (outcome.kind == SendOutcome::Kind::kReset && !is_write(request)) {
    outcome = send(request, *identity, stop);
  }
  if (is_about_credentials(outcome)) {
    credentials_->invalidate();
    const Result<Identity> newer = credentials_->current(Clock::now(), stop);
    if (!newer) return without_credentials(newer.error());
    if (*newer != *identity) outcome = send(request, *newer, stop);
  }
  if (outcome.fenced) return fenced_off();
  if (outcome.kind != SendOutcome::Kind::kAnswered) return no_answer(request, outcome.why);
  const HttpResponse& response = outcome.response;
  if (warnings != nullptr) {
    for (std::string& text : warning_texts(response.warnings)) warnings->push_back(std::move(text));
  }
  if (response.status < 200 || response.status > 299) return decode_error(request, response);
  json body = json::parse(response.body, nullptr, false);
  if (!body.is_object()) {
    ApiError error = no_answer(request, "the answer is not JSON");
    // Whatever said 2xx is no API server, or the answer was damaged on its way.
    error.error.code = common::ErrorCode::kInternal;
    return error;
  }
  return body;
}

SendOutcome HttpClient::send(const HttpRequest& request, const Identity& identity,
                             const std::stop_token& stop) {
  const Clock::time_point begin = Clock::now();
  SendOutcome outcome;
  ConnectionPtr connection = pool_.take(identity.endpoint, begin);
  if (!connection) {
    Result<ConnectionPtr> made = HttpConnection::make(identity.endpoint);
    if (!made) {
      outcome.why = made.error().message;
      return outcome;
    }
    connection = std::move(made).value();
  }
  SendOptions send_options;
  send_options.token = identity.token;
  send_options.stop = stop;
  send_options.silence = options_.request_timeout;
  send_options.total = options_.request_timeout;
  if (is_write(request)) send_options.may_send = options_.may_write;
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
  const Result<Identity> identity = credentials_->current(begin, stop);
  if (!identity) return without_credentials(identity.error());
  Result<ConnectionPtr> connection = HttpConnection::make(identity->endpoint);
  if (!connection) return no_answer(request, connection.error().message);

  LineSplitter lines(kMaxLineBytes);
  bool left = false;
  SendOptions send_options;
  send_options.token = identity->token;
  send_options.stop = stop;
  send_options.silence = watch_read_timeout(query);
  bool observed = false;
  const SendOutcome outcome = (*connection)
                                  ->stream(
                                      request, send_options,
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
  if (is_about_credentials(outcome)) credentials_->invalidate();
  if (lines.is_too_long()) return no_answer(request, "a line of the watch is too long");
  if (outcome.kind != SendOutcome::Kind::kAnswered) return no_answer(request, outcome.why);
  if (outcome.response.status != 200) return decode_error(request, outcome.response);
  // The last line of a log may lack its end; one of a watch is half an event.
  if (path.subresource == "log") lines.finish(on_line);
  return std::nullopt;
}

void HttpClient::observe(const HttpRequest& request, const std::string& code,
                         Clock::time_point begin) const {
  if (!options_.observer.on_request) return;
  options_.observer.on_request(request.method, code, host_, Clock::now() - begin);
}

}  // namespace

Result<std::unique_ptr<Client>> make_http_client(const ClientConfig& config,
                                                 HttpClientOptions options) {
  Endpoint base;
  ASSIGN_OR_RETURN(base.url, parse_server_url(config.server));
  if (!config.proxy_url.empty()) {
    ASSIGN_OR_RETURN(base.proxy, parse_proxy(config.proxy_url));
  }
  base.user_agent = options.user_agent;
  base.connect_timeout = options.connect_timeout;
  const ServerUrl url = base.url;
  std::unique_ptr<Credentials> credentials;
  ASSIGN_OR_RETURN(credentials, Credentials::make(config, std::move(base), read_file));
  common::ignore_broken_pipes();
  return std::unique_ptr<Client>(
      std::make_unique<HttpClient>(std::move(credentials), url, std::move(options)));
}

}  // namespace lockstep::kube
