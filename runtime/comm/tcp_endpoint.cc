#include "runtime/comm/tcp_endpoint.h"

#include <cerrno>
#include <memory>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/rendezvous.h"

namespace lockstep::runtime {
namespace {

constexpr std::chrono::milliseconds kDialInterval{5};
constexpr std::chrono::milliseconds kResolveInterval{50};
constexpr std::chrono::milliseconds kDialTimeout{1000};  // a lost packet must not cost the meeting

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

[[noreturn]] void throw_socket_error(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// Addresses of `host`, possibly none.
AddressList resolve(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) list = nullptr;
  return {list, &freeaddrinfo};
}

std::string numeric_address(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  const int error = getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (error != 0) throw std::runtime_error(std::string("getnameinfo: ") + gai_strerror(error));
  return text;
}

// Listens on `address`; returns the socket, or -errno.
int try_listen(const sockaddr* address, socklen_t length) {
  Socket bound(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bound.fd() < 0) return -errno;
  const int on = 1;
  const int off = 0;
  // A port of the last attempt may still be in TIME_WAIT.
  setsockopt(bound.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->sa_family == AF_INET6) {
    setsockopt(bound.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (bind(bound.fd(), address, length) != 0) return -errno;
  // Two sockets with SO_REUSEADDR may bind one port; only listening tells whether it is free.
  if (listen(bound.fd(), SOMAXCONN) != 0) return -errno;
  return bound.release();
}

[[noreturn]] void throw_listen_error(int error, const std::string& address, int port) {
  const std::string where = address + " port " + std::to_string(port);
  if (error == EADDRINUSE) throw PortInUseError("port in use: another process holds " + where);
  throw_socket_error(error, "cannot listen on " + where);
}

TcpSocket listen_on_all(int port) {
  sockaddr_in6 any6 = {};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<uint16_t>(port));
  const int fd6 = try_listen(reinterpret_cast<const sockaddr*>(&any6), sizeof(any6));
  if (fd6 >= 0) return {fd6, "::1"};
  if (fd6 == -EADDRINUSE) throw_listen_error(EADDRINUSE, "[::]", port);
  sockaddr_in any4 = {};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(static_cast<uint16_t>(port));
  const int fd4 = try_listen(reinterpret_cast<const sockaddr*>(&any4), sizeof(any4));
  if (fd4 < 0) throw_listen_error(-fd4, "0.0.0.0", port);
  return {fd4, "127.0.0.1"};
}

// A connection to `address`, or -1.
int dial(const addrinfo& address) {
  Socket dialled(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (dialled.fd() < 0) return -1;
  if (::connect(dialled.fd(), address.ai_addr, address.ai_addrlen) == 0) return dialled.release();
  if (errno != EINPROGRESS) return -1;
  pollfd writable = {.fd = dialled.fd(), .events = POLLOUT, .revents = 0};
  if (poll(&writable, 1, static_cast<int>(kDialTimeout.count())) != 1) return -1;
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(dialled.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return -1;
  return dialled.release();
}

// Interfaces and their addresses of the family of `address`.
std::vector<std::pair<std::string, std::string>> interface_addresses(const std::string& address) {
  const AddressList wanted = resolve(address, 0);
  if (wanted == nullptr) throw std::runtime_error("not an address: " + address);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw_socket_error(errno, "cannot list network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> interfaces(list, &freeifaddrs);
  const bool is_ipv4 = wanted->ai_family == AF_INET;
  const socklen_t length = is_ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::vector<std::pair<std::string, std::string>> found;
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_addr->sa_family != wanted->ai_family) continue;
    found.emplace_back(it->ifa_name, numeric_address(it->ifa_addr, length));
  }
  return found;
}

}  // namespace

TcpSocket listen_as_master(const std::string& host, int port) {
  const AddressList addresses = resolve(host, port);
  for (const addrinfo* it = addresses.get(); it != nullptr; it = it->ai_next) {
    const int fd = try_listen(it->ai_addr, it->ai_addrlen);
    const std::string address = numeric_address(it->ai_addr, it->ai_addrlen);
    if (fd >= 0) return {fd, address};
    if (fd == -EADDRINUSE || fd == -EACCES) throw_listen_error(-fd, address, port);
  }
  return listen_on_all(port);
}

std::optional<TcpSocket> dial_listener(const std::string& host, int port, Deadline deadline) {
  while (true) {
    const AddressList addresses = resolve(host, port);
    for (const addrinfo* it = addresses.get(); it != nullptr; it = it->ai_next) {
      const int fd = dial(*it);
      if (fd >= 0) return TcpSocket{fd, numeric_address(it->ai_addr, it->ai_addrlen)};
    }
    const auto pause = addresses == nullptr ? kResolveInterval : kDialInterval;
    if (std::chrono::steady_clock::now() + pause >= deadline) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

std::string local_address_towards(const std::string& address, int port) {
  const AddressList addresses = resolve(address, port);
  if (addresses == nullptr) throw std::runtime_error("not an address: " + address);
  // Connecting a datagram socket sends nothing; it only asks the routing table.
  const Socket probe(socket(addresses->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage local = {};
  socklen_t length = sizeof(local);
  if (probe.fd() < 0 || ::connect(probe.fd(), addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      getsockname(probe.fd(), reinterpret_cast<sockaddr*>(&local), &length) != 0) {
    throw_socket_error(errno, "no route to " + address);
  }
  return numeric_address(reinterpret_cast<const sockaddr*>(&local), length);
}

std::optional<std::string> address_of_interface(const std::string& name,
                                                const std::string& address) {
  for (const auto& [found, own_address] : interface_addresses(address)) {
    if (found == name) return own_address;
  }
  return std::nullopt;
}

std::string interfaces_towards(const std::string& address) {
  std::set<std::string> names;
  for (const auto& [name, own_address] : interface_addresses(address)) names.insert(name);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace lockstep::runtime
