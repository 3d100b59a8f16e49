// The server's end of an HTTP/1.1 connection, as far as a Kubernetes client needs it.
#pragma once

#include <string>
#include <string_view>

#include "operator/kube/request.h"

namespace lockstep::testing {

struct FrontRequest {
  kube::HttpRequest http;
  std::string token;  // bearer; empty = none

  bool is_watch() const { return http.target.find("watch=true") != std::string::npos; }
  bool is_initial() const { return http.target.find("sendInitialEvents") != std::string::npos; }
  // The value of a parameter of the query; empty if absent.
  std::string parameter(const std::string& name) const;
};

// "HTTP/1.1 429 ..." with a Status as its body.
std::string status_answer(int code, const std::string& reason, const std::string& message,
                          const std::string& more_headers = "");
// "HTTP/1.1 200 OK" with `body`.
std::string json_answer(int code, const std::string& body, const std::string& more_headers = "");

// Owns the descriptor. One thread reads and writes; cut() is for any.
class FrontSocket {
 public:
  explicit FrontSocket(int fd) : fd_(fd) {}
  ~FrontSocket();
  FrontSocket(const FrontSocket&) = delete;
  FrontSocket& operator=(const FrontSocket&) = delete;

  // False when the client is gone.
  bool read(FrontRequest& request);
  bool write(std::string_view bytes) const;
  bool write_chunk(std::string_view bytes) const;
  // The client sees a reset at once, instead of an end in good order.
  void reset_at_end() const;
  void cut() const;
  // Blocks until the client has closed its end.
  void await_hang_up() const;

 private:
  const int fd_;
  std::string unread_;
};

}  // namespace lockstep::testing
