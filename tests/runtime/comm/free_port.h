// A TCP port on loopback that was free a moment ago.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/tcp_endpoint.h"

namespace lockstep::runtime {

inline int port_of(int fd) {
  sockaddr_in address = {};
  socklen_t length = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

inline int free_port() {
  const ListeningSocket socket = listen_as_master("127.0.0.1", 0);
  const int port = port_of(socket.fd);
  close(socket.fd);
  return port;
}

}  // namespace lockstep::runtime
