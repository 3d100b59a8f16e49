#include "runtime/launch/fetch_pages.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::launch {
namespace {

using common::Error;
using common::ErrorCode;
using common::PageAddress;
using common::Result;
using Clock = std::chrono::steady_clock;

// The body of a whole answer, or what is wrong with it. Our pages tell their length, so an answer
// that its rank's end cut short is known.
Result<std::string> body_of(const std::string& where, std::string_view answer) {
  const auto bad = [&](const std::string& what) {
    return Error{ErrorCode::kUnavailable, where + ": " + what, ""};
  };
  constexpr std::string_view kLengthField = "\r\nContent-Length: ";
  const std::size_t head_end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || head_end == std::string_view::npos) {
    return bad("no HTTP answer");
  }
  const std::string_view head = answer.substr(0, head_end);
  const std::string_view status = head.substr(0, head.find("\r\n"));
  if (status.find(" 200 ") == std::string_view::npos) return bad(std::string(status));
  const std::size_t field = head.find(kLengthField);
  std::size_t length = 0;
  if (field == std::string_view::npos) return bad("an answer without its length");
  const char* const digits = head.data() + field + kLengthField.size();
  std::from_chars(digits, head.data() + head.size(), length);
  const std::string_view body = answer.substr(head_end + 4);
  if (body.size() != length) return bad("the answer was cut short");
  return std::string(body);
}

// One connection; never blocks.
class Call {
 public:
  explicit Call(const PageAddress& page)
      : where_(page.host + ":" + std::to_string(page.port) + page.path),
        unsent_("GET " + page.path + " HTTP/1.1\r\nHost: " + page.host +
                "\r\nConnection: close\r\n\r\n") {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(page.port));
    if (inet_pton(AF_INET, page.host.c_str(), &address.sin_addr) != 1) {
      end_with({ErrorCode::kInvalidArgument, where_ + ": not an IPv4 address", ""});
      return;
    }
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    if (fd_ < 0 || (connect(fd_, to, sizeof address) != 0 && errno != EINPROGRESS)) fail(errno);
  }
  ~Call() {
    if (fd_ >= 0) close(fd_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool is_over() const { return result_.has_value(); }
  pollfd awaited() const {
    const short events = unsent_.empty() ? POLLIN : POLLOUT;
    return {is_over() ? -1 : fd_, events, 0};
  }

  // Precondition: poll() says that there is something to do.
  void go_on() {
    if (!unsent_.empty()) {
      const ssize_t sent = send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
      if (sent < 0) return fail(errno);
      unsent_.erase(0, static_cast<std::size_t>(sent));
      return;
    }
    std::array<char, std::size_t{64} << 10> buffer{};
    const ssize_t size = recv(fd_, buffer.data(), buffer.size(), 0);
    if (size < 0) return fail(errno);
    answer_.append(buffer.data(), static_cast<std::size_t>(size));
    if (size == 0) result_ = body_of(where_, answer_);
    if (answer_.size() > kMaxAnswerBytes)
      end_with({ErrorCode::kUnavailable, where_ + ": too long an answer", ""});
  }

  Result<std::string> take_result() {
    if (!result_) end_with({ErrorCode::kUnavailable, where_ + ": no answer in time", ""});
    return *std::move(result_);
  }

 private:
  static constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;

  void end_with(Error error) { result_ = std::move(error); }
  void fail(int error) {
    if (error == EAGAIN || error == EINTR) return;
    end_with({ErrorCode::kUnavailable, where_ + ": " + std::strerror(error), ""});
  }

  const std::string where_;
  std::string unsent_;
  std::string answer_;
  int fd_ = -1;
  std::optional<Result<std::string>> result_;
};

}  // namespace

std::vector<Result<std::string>> fetch_pages(const std::vector<PageAddress>& pages,
                                             std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(pages.size());
  for (const PageAddress& page : pages) calls.push_back(std::make_unique<Call>(page));
  const auto is_over = [](const auto& call) { return call->is_over(); };
  while (!std::all_of(calls.begin(), calls.end(), is_over)) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) break;
    std::vector<pollfd> watched;
    watched.reserve(calls.size());
    for (const auto& call : calls) watched.push_back(call->awaited());
    if (poll(watched.data(), watched.size(), static_cast<int>(left.count())) <= 0) continue;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (watched[i].revents != 0) calls[i]->go_on();
    }
  }
  std::vector<Result<std::string>> results;
  results.reserve(calls.size());
  for (const auto& call : calls) results.push_back(call->take_result());
  return results;
}

}  // namespace lockstep::launch
