// An HTTP/1.1 server on a loopback port that answers each request with the next scripted bytes.
#pragma once

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "operator/kube/mutex.h"
#include "tests/support/loopback_listener.h"

namespace lockstep::kube {

// What the server does with one request.
struct ScriptedAnswer {
  std::string bytes;        // sent as they are; empty: nothing
  bool closes = false;      // the connection, after the bytes
  bool stays_open = false;  // until the server ends: further requests on it are not read
};

// "HTTP/1.1 200 OK" with a JSON body and its length.
std::string http_answer(int status, const std::string& body, const std::string& more_headers = "");

class ScriptedServer {
 public:
  explicit ScriptedServer(std::deque<ScriptedAnswer> script);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string url() const { return listener_.url(); }
  // Requests as received, head and body.
  std::vector<std::string> requests() const;
  int num_connections() const;
  int num_closed() const;  // connections that the server has closed

 private:
  void serve(const std::stop_token& stop);
  bool answer_one(int fd, const std::stop_token& stop);

  const support::LoopbackListener listener_;
  mutable Mutex mutex_;
  std::deque<ScriptedAnswer> script_ GUARDED_BY(mutex_);
  std::vector<std::string> requests_ GUARDED_BY(mutex_);
  int num_connections_ GUARDED_BY(mutex_) = 0;
  int num_closed_ GUARDED_BY(mutex_) = 0;
  std::jthread thread_;
};

}  // namespace lockstep::kube
