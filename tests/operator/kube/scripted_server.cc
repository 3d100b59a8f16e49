#include "tests/operator/kube/scripted_server.h"

#include <array>
#include <cstdlib>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::kube {
namespace {

// True when there is something to read (or accept); false when stopped.
bool wait_readable(int fd, const std::stop_token& stop) {
  constexpr int kLookEveryMs = 5;
  while (!stop.stop_requested()) {
    pollfd entry{fd, POLLIN, 0};
    if (poll(&entry, 1, kLookEveryMs) > 0) return true;
  }
  return false;
}

std::size_t body_size(const std::string& head) {
  const std::size_t at = head.find("Content-Length: ");
  return at == std::string::npos ? 0 : std::strtoul(head.c_str() + at + 16, nullptr, 10);
}

bool is_complete(const std::string& request) {
  const std::size_t end = request.find("\r\n\r\n");
  return end != std::string::npos && request.size() >= end + 4 + body_size(request.substr(0, end));
}

}  // namespace

std::string http_answer(int status, const std::string& body, const std::string& more_headers) {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" +
         more_headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

ScriptedServer::ScriptedServer(std::deque<ScriptedAnswer> script) : script_(std::move(script)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

ScriptedServer::~ScriptedServer() {
  thread_.request_stop();
  thread_.join();
}

std::vector<std::string> ScriptedServer::requests() const {
  const MutexLock lock(mutex_);
  return requests_;
}

int ScriptedServer::num_connections() const {
  const MutexLock lock(mutex_);
  return num_connections_;
}

int ScriptedServer::num_closed() const {
  const MutexLock lock(mutex_);
  return num_closed_;
}

void ScriptedServer::serve(const std::stop_token& stop) {
  while (wait_readable(listener_.fd(), stop)) {
    const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    {
      const MutexLock lock(mutex_);
      ++num_connections_;
    }
    while (answer_one(fd, stop)) continue;
    close(fd);
    const MutexLock lock(mutex_);
    ++num_closed_;
  }
}

bool ScriptedServer::answer_one(int fd, const std::stop_token& stop) {
  std::string request;
  std::array<char, 4096> buffer{};
  while (!is_complete(request)) {
    if (!wait_readable(fd, stop)) return false;
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
    if (got <= 0) return false;
    request.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ScriptedAnswer answer{"", true, false};
  {
    const MutexLock lock(mutex_);
    requests_.push_back(request);
    if (!script_.empty()) {
      answer = script_.front();
      script_.pop_front();
    }
  }
  send(fd, answer.bytes.data(), answer.bytes.size(), MSG_NOSIGNAL);
  if (answer.stays_open) {
    // Until the client leaves or the server ends.
    while (wait_readable(fd, stop) && recv(fd, buffer.data(), buffer.size(), 0) > 0) continue;
    return false;
  }
  return !answer.closes;
}

}  // namespace lockstep::kube
