#include "tests/support/fault_proxy/front_socket.h"

#include <array>
#include <cstdlib>

#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::testing {
namespace {

// The value of a header of `head`, as our client writes it; empty if absent.
std::string header_of(const std::string& head, const std::string& name) {
  const std::string line = "\r\n" + name + ": ";
  const std::size_t at = head.find(line);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + line.size();
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

}  // namespace

std::string FrontRequest::parameter(const std::string& name) const {
  for (const char* before : {"?", "&"}) {
    const std::string key = before + name + "=";
    const std::size_t at = http.target.find(key);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + key.size();
    return http.target.substr(begin, http.target.find('&', begin) - begin);
  }
  return "";
}

std::string json_answer(int code, const std::string& body, const std::string& more_headers) {
  return "HTTP/1.1 " + std::to_string(code) + " X\r\n" + more_headers +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::string status_answer(int code, const std::string& reason, const std::string& message,
                          const std::string& more_headers) {
  const nlohmann::json status = {{"apiVersion", "v1"}, {"kind", "Status"},   {"status", "Failure"},
                                 {"reason", reason},   {"message", message}, {"code", code}};
  return json_answer(code, status.dump(), more_headers);
}

FrontSocket::~FrontSocket() {
  close(fd_);
}

bool FrontSocket::read(FrontRequest& request) {
  std::array<char, 16384> buffer{};
  std::size_t head_end = 0;
  std::size_t size = 0;
  for (;;) {
    head_end = unread_.find("\r\n\r\n");
    if (head_end != std::string::npos) {
      const std::string length = header_of(unread_.substr(0, head_end + 2), "Content-Length");
      size = head_end + 4 + std::strtoul(length.c_str(), nullptr, 10);
      if (unread_.size() >= size) break;
    }
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
    if (got <= 0) return false;
    unread_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  const std::string head = unread_.substr(0, head_end + 2);
  const std::size_t method_end = head.find(' ');
  const std::size_t target_end = head.find(' ', method_end + 1);
  request.http.method = head.substr(0, method_end);
  request.http.target = head.substr(method_end + 1, target_end - method_end - 1);
  request.http.content_type = header_of(head, "Content-Type");
  request.http.body = unread_.substr(head_end + 4, size - head_end - 4);
  const std::string authorization = header_of(head, "Authorization");
  request.token = authorization.starts_with("Bearer ") ? authorization.substr(7) : "";
  unread_.erase(0, size);
  return true;
}

bool FrontSocket::write(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool FrontSocket::write_chunk(std::string_view bytes) const {
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  std::string chunk = size.data();
  chunk.append(bytes).append("\r\n");
  return write(chunk);
}

void FrontSocket::reset_at_end() const {
  const linger now{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

void FrontSocket::cut() const {
  shutdown(fd_, SHUT_RDWR);
}

void FrontSocket::await_hang_up() const {
  std::array<char, 4096> buffer{};
  while (recv(fd_, buffer.data(), buffer.size(), 0) > 0) continue;
}

}  // namespace lockstep::testing
