#include "operator/local/node_link.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::local {

using common::Error;
using common::ErrorCode;
using common::Result;

namespace {

// A manifest nests 64 levels (document.cc), the objects made of it a few more.
constexpr int kMaxLineDepth = 128;

constexpr std::chrono::milliseconds kDepartureTick{20};

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList resolve(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) list = nullptr;
  return {list, &freeaddrinfo};
}

std::string where(const std::string& host, int port) {
  return host + ":" + std::to_string(port);
}

std::string peer_address(int fd) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> text{};
  if (getpeername(fd, generic, &length) != 0 ||
      getnameinfo(generic, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "an unknown address";
  }
  return text.data();
}

// Waits until a started connection stands; its errno, 0 if it does.
int await_connected(int fd, std::chrono::milliseconds patience) {
  pollfd writable = {.fd = fd, .events = POLLOUT, .revents = 0};
  if (poll(&writable, 1, static_cast<int>(patience.count())) != 1) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

// Whether maps and lists are nested beyond what a node sends: what copies a value recurses.
bool is_too_deep(std::string_view line) {
  int depth = 0;
  bool is_text = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (is_text && c == '\\') ++i;
    if (c == '"') is_text = !is_text;
    if (is_text) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxLineDepth) return true;
  }
  return false;
}

// A peer that dies with unread input resets the connection instead of closing it.
std::string reason_of(int error) {
  if (error == ECONNRESET || error == EPIPE) return "its connection closed";
  return std::strerror(error);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

NodeLink::NodeLink(Socket socket, std::string peer)
    : socket_(std::move(socket)),
      peer_(std::move(peer)),
      heard_(Clock::now()),
      spoke_(Clock::now()) {
  const int on = 1;
  setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void NodeLink::send(const nlohmann::json& message) {
  if (lost_) return;
  unsent_ += message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  spoke_ = Clock::now();
  write_some();
}

std::vector<nlohmann::json> NodeLink::exchange() {
  if (!lost_ && Clock::now() - spoke_ > kBeatInterval) send({{"beat", true}});
  if (!lost_) write_some();
  if (!lost_) read_some();
  if (!lost_ && Clock::now() - heard_ > kSilenceLimit) {
    lost_ =
        "it was silent for " +
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(kSilenceLimit).count()) +
        " s";
  }
  return take_lines();
}

void NodeLink::distrust() {
  if (!lost_) lost_ = "it sent what no node sends";
}

void NodeLink::write_some() {
  while (!unsent_.empty()) {
    const ssize_t written =
        ::send(socket_.fd(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (written < 0) return;  // reading tells why, after what the peer still said
    unsent_.erase(0, static_cast<size_t>(written));
  }
}

void NodeLink::read_some() {
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t count = recv(socket_.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) {
      unread_.append(buffer.data(), static_cast<size_t>(count));
      heard_ = Clock::now();
      if (unread_.size() <= max_line_bytes_) continue;
      return distrust();
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    lost_ = reason_of(count == 0 ? EPIPE : errno);
    return;
  }
}

std::vector<nlohmann::json> NodeLink::take_lines() {
  std::vector<nlohmann::json> messages = std::exchange(put_back_, {});
  size_t begin = 0;
  for (size_t end = 0; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(unread_).substr(begin, end - begin);
    nlohmann::json message;
    if (line.size() <= max_line_bytes_ && !is_too_deep(line)) {
      message = nlohmann::json::parse(line, nullptr, false);
    }
    if (!message.is_object()) {
      distrust();
      break;
    }
    if (!message.contains("beat")) messages.push_back(std::move(message));
  }
  unread_.erase(0, begin);
  return messages;
}

void await_departure(std::vector<NodeLink>& links, std::chrono::milliseconds patience) {
  const auto deadline = NodeLink::Clock::now() + patience;
  const auto has_left = [](NodeLink& link) {
    link.exchange();
    return link.lost().has_value();
  };
  while (!std::all_of(links.begin(), links.end(), has_left) && NodeLink::Clock::now() < deadline) {
    poll(nullptr, 0, static_cast<int>(kDepartureTick.count()));
  }
}

Result<Socket> listen_at(const std::string& host, int port) {
  const AddressList addresses = resolve(host, port);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* it = addresses.get(); it != nullptr; it = it->ai_next) {
    Socket socket(::socket(it->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(socket.fd(), it->ai_addr, it->ai_addrlen) == 0 &&
        listen(socket.fd(), SOMAXCONN) == 0) {
      return socket;
    }
    error = errno;
  }
  const std::string what = "cannot listen on " + where(host, port) + ": ";
  if (error == EADDRINUSE) {
    return Error{ErrorCode::kAlreadyExists, what + std::strerror(error),
                 "give --master another port"};
  }
  return Error{ErrorCode::kInvalidArgument,
               what + (addresses ? std::strerror(error) : "no such host"),
               "--master names an address of the machine whose --node-rank is 0"};
}

std::optional<NodeLink> accept_link(const Socket& listening) {
  Socket socket(accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return std::nullopt;
  std::string peer = peer_address(socket.fd());
  return NodeLink(std::move(socket), std::move(peer));
}

Result<NodeLink> dial(const std::string& host, int port, std::chrono::milliseconds patience) {
  const AddressList addresses = resolve(host, port);
  if (!addresses) return Error{ErrorCode::kUnavailable, "no such host", ""};
  int error = 0;
  for (const addrinfo* it = addresses.get(); it != nullptr; it = it->ai_next) {
    Socket socket(::socket(it->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    error = connect(socket.fd(), it->ai_addr, it->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) error = await_connected(socket.fd(), patience);
    if (error == 0) return NodeLink(std::move(socket), where(host, port));
  }
  return Error{ErrorCode::kUnavailable, std::strerror(error), ""};
}

}  // namespace lockstep::local
