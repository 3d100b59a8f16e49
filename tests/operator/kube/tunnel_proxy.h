// An HTTP proxy on a loopback port, for one tunnel to another loopback port.
#pragma once

#include <string>
#include <thread>

namespace lockstep::kube {

class TunnelProxy {
 public:
  TunnelProxy();
  ~TunnelProxy();
  TunnelProxy(const TunnelProxy&) = delete;
  TunnelProxy& operator=(const TunnelProxy&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // What the tunnel was asked for with. Call once the client is gone.
  const std::string& request();

 private:
  void serve();

  int listener_ = -1;
  int port_ = 0;
  std::string request_;
  std::jthread thread_;
};

}  // namespace lockstep::kube
