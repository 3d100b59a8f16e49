// The fake API server behind HTTP on a loopback port, so that real clients, and what stands between
// them and a server, can be tested without a cluster.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "tests/operator/controller/fake_api_server.h"
#include "tests/support/fault_proxy/front_socket.h"
#include "tests/support/loopback_listener.h"

namespace lockstep::control {

class ServedApi {
 public:
  // `server` outlives this.
  explicit ServedApi(FakeApiServer& server);
  // Ends all watches and connections.
  ~ServedApi();
  ServedApi(const ServedApi&) = delete;
  ServedApi& operator=(const ServedApi&) = delete;

  std::string url() const { return listener_.url(); }

 private:
  struct Connection {
    explicit Connection(int fd) : socket(fd) {}
    testing::FrontSocket socket;
    std::atomic<bool> ended = false;
  };

  void accept_all(const std::stop_token& stop);
  void serve(Connection& connection, const std::stop_token& stop);
  bool answer(Connection& connection, const testing::FrontRequest& request,
              const std::stop_token& stop);
  bool answer_watch(Connection& connection, const testing::FrontRequest& request,
                    const std::stop_token& stop);

  FakeApiServer& server_;
  const support::LoopbackListener listener_;
  std::jthread acceptor_;  // owns the connections' threads
};

}  // namespace lockstep::control
