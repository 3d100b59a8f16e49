#include "runtime/comm/key_store.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::runtime {
namespace {

using Clock = std::chrono::steady_clock;

uint32_t milliseconds_until(KeyClient::Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(left, 0, INT32_MAX));
}

// Waits until the socket is ready for `events`.
void await_ready(int fd, short events, KeyClient::Deadline deadline) {
  while (true) {
    pollfd polled = {.fd = fd, .events = events, .revents = 0};
    const auto left = static_cast<int>(milliseconds_until(deadline));
    const int count = poll(&polled, 1, left);
    if (count > 0) return;
    if (count == 0) throw KeyStoreSilentError("timed out without an answer");
    if (errno != EINTR) throw KeyStoreLostError(std::generic_category().message(errno));
  }
}

// `count` bytes moved, or an error number; true if more may be tried.
bool goes_on(ssize_t count) {
  if (count > 0) return true;
  if (count == 0) throw KeyStoreLostError("connection closed");
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
  throw KeyStoreLostError(std::generic_category().message(errno));
}

void send_all(int fd, const std::string& bytes, KeyClient::Deadline deadline) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (goes_on(count)) {
      sent += static_cast<std::size_t>(count);
    } else {
      await_ready(fd, POLLOUT, deadline);
    }
  }
}

std::string receive(int fd, std::size_t num_bytes, KeyClient::Deadline deadline) {
  std::string bytes(num_bytes, '\0');
  std::size_t received = 0;
  while (received < num_bytes) {
    await_ready(fd, POLLIN, deadline);
    const ssize_t count = recv(fd, bytes.data() + received, num_bytes - received, 0);
    if (goes_on(count)) received += static_cast<std::size_t>(count);
  }
  return bytes;
}

// Note [Frames] in key_server.h.
std::string request(char verb, const std::string& key, std::string_view value, uint32_t wait_ms) {
  std::string bytes(1, verb);
  append_number(bytes, wait_ms);
  append_number(bytes, static_cast<uint32_t>(key.size()));
  append_number(bytes, static_cast<uint32_t>(value.size()));
  return bytes.append(key).append(value);
}

}  // namespace

KeyClient::KeyClient(int fd) : fd_(fd) {
  fcntl(fd_, F_SETFL, O_NONBLOCK);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // It fits into the socket's buffer; a connection that is gone is noticed by the first request.
  [[maybe_unused]] const ssize_t count = send(fd_, kKeyMagic, kKeyMagicBytes, MSG_NOSIGNAL);
}

KeyClient::~KeyClient() {
  if (fd_ >= 0) close(fd_);
}

void KeyClient::set(const std::string& key, std::string_view value, Deadline deadline) {
  ask('s', key, value, deadline);
}

std::optional<std::string> KeyClient::get(const std::string& key, Deadline deadline) {
  return ask('g', key, "", deadline);
}

std::optional<std::string> KeyClient::ask(char verb, const std::string& key, std::string_view value,
                                          Deadline deadline) {
  if (key.size() > kMaxKeyBytes || value.size() > kMaxValueBytes) {
    throw std::invalid_argument("key store: key or value too long: " + key.substr(0, 100));
  }
  const std::lock_guard lock(mutex_);
  if (fd_ < 0) throw KeyStoreLostError("connection closed");
  const Deadline limit = std::max(deadline, Clock::now()) + kGrace;
  try {
    send_all(fd_, request(verb, key, value, milliseconds_until(deadline)), limit);
    const std::string head = receive(fd_, kAnswerHeadBytes, limit);
    const uint32_t num_bytes = number_at(head, 1);
    if (num_bytes > kMaxValueBytes) throw KeyStoreLostError("not the store that answers");
    std::string answer = receive(fd_, num_bytes, limit);
    if (head[0] == 'y') return answer;
    return std::nullopt;
  } catch (const KeyStoreLostError&) {
    close(std::exchange(fd_, -1));  // an answer that comes later would be taken for another's
    throw;
  }
}

}  // namespace lockstep::runtime
