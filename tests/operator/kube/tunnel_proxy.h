// An HTTP proxy on a loopback port, for one tunnel to another loopback port.
#pragma once

#include <string>
#include <thread>

#include "tests/support/loopback_listener.h"

namespace lockstep::kube {

class TunnelProxy {
 public:
  TunnelProxy();
  ~TunnelProxy();
  TunnelProxy(const TunnelProxy&) = delete;
  TunnelProxy& operator=(const TunnelProxy&) = delete;

  std::string url() const { return listener_.url(); }
  // What the tunnel was asked for with. Call once the client is gone.
  const std::string& request();

 private:
  void serve();

  const support::LoopbackListener listener_;
  std::string request_;
  std::jthread thread_;
};

}  // namespace lockstep::kube
