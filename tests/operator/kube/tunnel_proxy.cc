#include "tests/operator/kube/tunnel_proxy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::kube {

TunnelProxy::TunnelProxy() {
  thread_ = std::jthread([this] { serve(); });
}

TunnelProxy::~TunnelProxy() {
  shutdown(listener_.fd(), SHUT_RDWR);
  thread_.join();
}

const std::string& TunnelProxy::request() {
  thread_.join();
  thread_ = std::jthread([] {});
  return request_;
}

void TunnelProxy::serve() {
  const int client = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  std::array<char, 4096> buffer{};
  const ssize_t got = recv(client, buffer.data(), buffer.size(), 0);
  request_.assign(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::size_t colon = request_.find(':');
  address.sin_port =
      htons(static_cast<uint16_t>(std::strtoul(request_.c_str() + colon + 1, nullptr, 10)));
  const std::string agreed = "HTTP/1.1 200 Connection established\r\n\r\n";
  bool goes_on = connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                 send(client, agreed.data(), agreed.size(), MSG_NOSIGNAL) > 0;
  while (goes_on) {
    std::array<pollfd, 2> ends{{{client, POLLIN, 0}, {server, POLLIN, 0}}};
    poll(ends.data(), ends.size(), -1);
    for (const auto& [from, to] : {std::pair(0U, server), std::pair(1U, client)}) {
      if (ends[from].revents == 0) continue;
      const ssize_t moved = recv(ends[from].fd, buffer.data(), buffer.size(), 0);
      goes_on = moved > 0 &&
                send(to, buffer.data(), static_cast<std::size_t>(moved), MSG_NOSIGNAL) == moved;
      if (!goes_on) break;
    }
  }
  close(server);
  close(client);
}

}  // namespace lockstep::kube
