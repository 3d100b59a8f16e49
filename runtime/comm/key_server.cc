#include "runtime/comm/key_server.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::runtime {
namespace {

constexpr std::chrono::milliseconds kPauseAfterRefusal{10};  // no descriptor is free

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

void append_number(std::string& out, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(number >> shift));
}

uint32_t number_at(const std::string& bytes, std::size_t at) {
  uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    number |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << 8 * i;
  }
  return number;
}

KeyServer::KeyServer(int listening) : listening_(listening) {
  if (pipe2(wake_, O_CLOEXEC) != 0) {
    const int error = errno;
    close(listening_);
    throw std::system_error(error, std::generic_category(), "key server: pipe");
  }
  fcntl(listening_, F_SETFL, O_NONBLOCK);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "key-server");
    run();
  });
}

KeyServer::~KeyServer() {
  close(wake_[1]);
  thread_.join();
  close(wake_[0]);
  close(listening_);
  for (const Connection& connection : connections_) close(connection.fd);
}

void KeyServer::run() {
  std::vector<pollfd> polled;
  while (true) {
    polled = {{.fd = wake_[0], .events = 0, .revents = 0},
              {.fd = listening_, .events = POLLIN, .revents = 0}};
    for (const Connection& connection : connections_) {
      const int events = connection.out.empty() ? POLLIN : POLLIN | POLLOUT;
      polled.push_back({.fd = connection.fd, .events = static_cast<short>(events), .revents = 0});
    }
    if (poll(polled.data(), polled.size(), poll_timeout()) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = connections_[i];
      bool goes_on = true;
      if (polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) goes_on = read_from(connection);
      if (goes_on && polled[i + 2].revents & POLLOUT) goes_on = write_to(connection);
      if (!goes_on) close(std::exchange(connection.fd, -1));
    }
    answer_waits();
    std::erase_if(connections_, [](const Connection& connection) { return connection.fd < 0; });
    if (polled[1].revents != 0) accept_all();
  }
}

int KeyServer::poll_timeout() const {
  std::optional<Clock::time_point> first;
  for (const Connection& connection : connections_) {
    if (connection.wait)
      first = std::min(first.value_or(Clock::time_point::max()), connection.wait->deadline);
  }
  if (!first) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void KeyServer::accept_all() {
  while (true) {
    const int fd = accept4(listening_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (!would_block() && errno != ECONNABORTED) std::this_thread::sleep_for(kPauseAfterRefusal);
      return;
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    connections_.push_back({.fd = fd});
  }
}

bool KeyServer::read_from(Connection& connection) {
  char buffer[65536];  // no more in one turn: a rank that sends on and on does not keep the others
  const ssize_t count = recv(connection.fd, buffer, sizeof(buffer), 0);
  if (count == 0) return false;
  if (count < 0) return would_block();
  connection.in.append(buffer, static_cast<std::size_t>(count));
  return take_requests(connection);
}

bool KeyServer::take_requests(Connection& connection) {
  std::string& in = connection.in;
  if (!connection.is_greeted) {
    if (in.size() < kKeyMagicBytes) return true;
    if (!in.starts_with(kKeyMagic)) return false;
    in.erase(0, kKeyMagicBytes);
    connection.is_greeted = true;
  }
  while (in.size() >= kRequestHeadBytes) {
    const uint32_t wait_ms = number_at(in, 1), key_bytes = number_at(in, 5),
                   value_bytes = number_at(in, 9);
    if (key_bytes > kMaxKeyBytes || value_bytes > kMaxValueBytes) return false;
    if (in.size() < kRequestHeadBytes + key_bytes + value_bytes) return true;
    const char verb = in[0];
    std::string key = in.substr(kRequestHeadBytes, key_bytes);
    std::string value = in.substr(kRequestHeadBytes + key_bytes, value_bytes);
    in.erase(0, kRequestHeadBytes + key_bytes + value_bytes);
    if (!carry_out(connection, verb, wait_ms, std::move(key), std::move(value))) return false;
  }
  return true;
}

bool KeyServer::carry_out(Connection& connection, char verb, uint32_t wait_ms, std::string key,
                          std::string value) {
  if (connection.wait || !connection.out.empty()) return false;  // it did not await its answer
  if (verb == 's') {
    values_[std::move(key)] = std::move(value);
    // Before anybody hears of the value: then the process may end at once.
    answer(connection, true, "");
    return write_to(connection);
  }
  if (verb != 'g') return false;
  connection.wait = {std::move(key), Clock::now() + std::chrono::milliseconds(wait_ms)};
  return true;
}

void KeyServer::answer_waits() {
  const auto now = Clock::now();
  for (Connection& connection : connections_) {
    if (connection.fd < 0 || !connection.wait) continue;
    const auto found = values_.find(connection.wait->key);
    const bool is_found = found != values_.end();
    if (!is_found && now < connection.wait->deadline) continue;
    connection.wait.reset();
    answer(connection, is_found, is_found ? found->second : "");
    if (!write_to(connection)) close(std::exchange(connection.fd, -1));
  }
}

void KeyServer::answer(Connection& connection, bool is_found, const std::string& value) {
  connection.out.push_back(is_found ? 'y' : 'n');
  append_number(connection.out, static_cast<uint32_t>(value.size()));
  connection.out += value;
}

bool KeyServer::write_to(Connection& connection) {
  std::string& out = connection.out;
  while (!out.empty()) {
    const ssize_t count = send(connection.fd, out.data(), out.size(), MSG_NOSIGNAL);
    if (count < 0) return would_block();
    out.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace lockstep::runtime
