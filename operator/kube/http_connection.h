// One keep-alive connection to the API server: the only place that knows the HTTP library.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/kube/proxy.h"
#include "operator/kube/request.h"
#include "operator/kube/server_url.h"
#include "operator/kube/tls.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

struct Endpoint {
  ServerUrl url;
  std::optional<Proxy> proxy;
  TlsConfig tls;
  TlsMaterial material;
  std::string user_agent;
  std::chrono::milliseconds connect_timeout{0};
};

struct SendOptions {
  std::string token;                     // bearer; empty = none
  std::chrono::milliseconds silence{0};  // longest wait for the next byte
  std::chrono::milliseconds total{0};    // longest wait for the whole answer; 0 = no limit
  std::stop_token stop;                  // gives up at once, also in mid-connect
  // Asked when the connection stands and all but the body is sent; false: the body is not, and
  // without it the server does nothing. May be empty.
  std::function<bool()> may_send;
};

struct SendOutcome {
  enum class Kind {
    kAnswered,   // `response` is complete
    kReset,      // the connection ended before the first byte of an answer
    kFailed,     // not connected, timed out, or cut in mid-answer
    kCancelled,  // by the stop or by `on_body`
  };
  Kind kind = Kind::kFailed;
  HttpResponse response;
  std::string why;         // unless answered
  bool untrusted = false;  // nothing was sent: the server's certificate is not vouched for
  bool fenced = false;     // may_send said no
};

// Not for several threads at once.
class HttpConnection {
 public:
  // Connects at the first use. Fails if the endpoint's TLS part is bad.
  static common::Result<std::unique_ptr<HttpConnection>> make(
      std::shared_ptr<const Endpoint> endpoint);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Sends and waits for the whole answer.
  SendOutcome send(const HttpRequest& request, const SendOptions& options);

  // Sends and hands the body of a 200 to `on_body` as it comes, until the server ends it, `on_body`
  // returns false or the stop is requested; any other answer lands in the outcome's response.
  // `on_status` is called once when the headers are here.
  SendOutcome stream(const HttpRequest& request, const SendOptions& options,
                     const std::function<void(int status)>& on_status,
                     const std::function<bool(std::string_view)>& on_body);

  // True if the connection is open and quiet, so that the next request can go over it. An idle
  // connection with anything to read has been closed by the server.
  bool is_reusable() const;

  const std::shared_ptr<const Endpoint>& endpoint() const;

 private:
  struct State;
  explicit HttpConnection(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::kube
