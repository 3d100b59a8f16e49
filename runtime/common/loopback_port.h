// A TCP port of 127.0.0.1 for a program that is about to start.
#pragma once

namespace lockstep::common {

// Reserves a free port while it lives, for whoever listens on it with SO_REUSEADDR (the rendezvous
// and HttpServer do): the port is bound but not listened on, so the system gives it to nobody who
// asks for any port, be it to listen or to dial (Linux, net/ipv4/inet_connection_sock.c:
// inet_csk_get_port).
class LoopbackPort {
 public:
  // Throws std::system_error without a free port or descriptor.
  LoopbackPort();
  ~LoopbackPort();
  LoopbackPort(LoopbackPort&& other) noexcept;
  LoopbackPort& operator=(LoopbackPort&& other) noexcept;
  LoopbackPort(const LoopbackPort&) = delete;
  LoopbackPort& operator=(const LoopbackPort&) = delete;

  int number() const { return number_; }

 private:
  int fd_ = -1;
  int number_ = 0;
};

}  // namespace lockstep::common
