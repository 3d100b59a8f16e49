#include "runtime/common/loopback_port.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::common {

LoopbackPort::LoopbackPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd_, generic, length) != 0 || getsockname(fd_, generic, &length) != 0) {
    const int error = errno;
    if (fd_ >= 0) close(fd_);
    throw std::system_error(error, std::generic_category(), "no free TCP port on 127.0.0.1");
  }
  number_ = ntohs(address.sin_port);
}

LoopbackPort::~LoopbackPort() {
  if (fd_ >= 0) close(fd_);
}

LoopbackPort::LoopbackPort(LoopbackPort&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), number_(other.number_) {}

LoopbackPort& LoopbackPort::operator=(LoopbackPort&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(number_, other.number_);
  return *this;
}

}  // namespace lockstep::common
