#include "operator/machine/route.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::machine {
namespace {

constexpr const char* kAnyPort = "29500";

std::string numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  const int failure =
      getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failure == 0 ? text.data() : "";
}

std::string interface_with(const std::string& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> interfaces(list, &freeifaddrs);
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr) continue;
    const int family = it->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (numeric(it->ifa_addr, length) == address) return it->ifa_name;
  }
  return "";
}

// Own address on the way to `target`; empty, with errno, if there is no way.
std::string address_towards(const addrinfo& target) {
  const int fd = socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_storage local = {};
  socklen_t length = sizeof(local);
  auto* const own = reinterpret_cast<sockaddr*>(&local);
  // Connecting a datagram socket sends nothing; it only asks the routing table.
  const bool is_known =
      connect(fd, target.ai_addr, target.ai_addrlen) == 0 && getsockname(fd, own, &length) == 0;
  const int failure = errno;
  close(fd);
  errno = failure;
  return is_known ? numeric(own, length) : "";
}

}  // namespace

RouteFacts read_route(const std::string& master) {
  RouteFacts facts;
  facts.master = master;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(master.c_str(), kAnyPort, &hints, &list);
  if (failure != 0) {
    facts.trouble = master + " is not known here: " + gai_strerror(failure);
    return facts;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> targets(list, &freeaddrinfo);
  for (const addrinfo* it = list; it != nullptr && facts.address.empty(); it = it->ai_next) {
    facts.address = address_towards(*it);
  }
  if (facts.address.empty()) {
    facts.trouble = std::string("there is no route to ") + master + ": " + std::strerror(errno);
    return facts;
  }
  facts.interface = interface_with(facts.address);
  return facts;
}

}  // namespace lockstep::machine
