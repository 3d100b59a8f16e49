// Stands between an operator and its API server and does what networks and servers do on bad days.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "operator/kube/client_config.h"
#include "operator/kube/http_connection.h"
#include "operator/kube/mutex.h"
#include "tests/support/fault_proxy/front_socket.h"

namespace lockstep::testing {

enum class Fault {
  kNone,
  kLostResponses,    // every second write is done, and its answer lost with the connection
  kDelayedWatches,   // events come up to 600 ms late, in order
  kCutWatches,       // a stream breaks after up to 3 events, half of the time in mid-line
  kTimeTravel,       // lists show an older version; watches are silent, or 410 if they know better
  kExpiredWatches,   // 410 for every watch: as an answer, or as an event
  kTooManyRequests,  // 429 with Retry-After: 1
  kInternalError,    // 500
  kUnavailable,      // 503
  kRefused,          // nobody listens
  kHalfOpen,         // connections stay open, and nothing comes any more
  kUnauthorized,     // 401 for every token but one
  kForbidden,        // 403
};
std::string_view to_string(Fault fault);

// What the proxy was asked for since it began.
struct ProxyCounts {
  int64_t writes = 0;    // asked for, done or not
  int64_t in_fault = 0;  // of all kinds, while a fault lasted
  int64_t hit = 0;       // that the fault touched
};

// Speaks plain HTTP/1.1 on a loopback port and passes everything on over TLS, with the caller's own
// token. The n-th choice of a seed is always the same. A fault begins with the end of all streams
// that it forbids.
class FaultProxy {
 public:
  FaultProxy(const kube::ClientConfig& server, uint64_t seed);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  // `detail`: the version that kTimeTravel shows, or the token that kUnauthorized accepts.
  void begin(Fault fault, const std::string& detail = "");
  void end() { begin(Fault::kNone); }
  ProxyCounts counts() const;

 private:
  struct Connection {
    explicit Connection(int fd) : socket(fd) {}
    FrontSocket socket;
    std::stop_source stop;           // of the call upstream
    std::atomic<bool> dead = false;  // half-open for ever
    std::atomic<bool> streams = false;
    std::atomic<bool> ended = false;
    std::unique_ptr<kube::HttpConnection> upstream;
  };

  void accept_all(const std::stop_token& stop);
  void serve(Connection& connection);
  // False if the connection is over.
  bool answer(Connection& connection, const FrontRequest& request);
  bool answer_stream(Connection& connection, const FrontRequest& request, Fault fault);
  bool pass_line(Connection& connection, std::string_view line, int& lines_left);
  bool pass_on(Connection& connection, const FrontRequest& request, bool loses_answer);
  kube::HttpConnection& upstream_of(Connection& connection) const;
  // What the fault answers in the server's place; empty: nothing.
  std::string refusal_of(Fault fault, const FrontRequest& request);
  void listen_again();
  void stop_listening();
  // A number in [0, bound).
  int choose(int bound);
  Fault fault() const;
  std::string detail() const;
  void count_hit();

  std::shared_ptr<const kube::Endpoint> endpoint_;
  int port_ = 0;
  std::atomic<int> listener_ = -1;
  mutable kube::Mutex mutex_;
  Fault fault_ GUARDED_BY(mutex_) = Fault::kNone;
  std::string detail_ GUARDED_BY(mutex_);
  ProxyCounts counts_ GUARDED_BY(mutex_);
  std::mt19937_64 random_ GUARDED_BY(mutex_);
  std::map<std::shared_ptr<Connection>, std::jthread> connections_ GUARDED_BY(mutex_);
  std::jthread acceptor_;
};

}  // namespace lockstep::testing
