// A TCP connection between two nodes: JSON values, a line each. Nothing here blocks but dial() and
// await_departure().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/result.h"

namespace lockstep::local {

// A socket or none; closes it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Each side says something at least so often, and a peer that was silent for longer than the limit
// is taken for lost: a machine without power closes no connection.
inline constexpr std::chrono::milliseconds kBeatInterval{1000};
inline constexpr std::chrono::milliseconds kDoubtAfter{3000};
inline constexpr std::chrono::milliseconds kSilenceLimit{15000};

// A job's manifest is at most 4 MiB; who sends a longer line is none of us.
inline constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

// One object, one thread. After an error it is lost for good and drops what it is given.
class NodeLink {
 public:
  using Clock = std::chrono::steady_clock;

  //   peer: its address, for people.
  NodeLink(Socket socket, std::string peer);

  void send(const nlohmann::json& message);
  // Writes and reads what can be without waiting, sends a beat if it is time for one, and returns
  // what came, beats excepted. What came before the connection was lost is still returned.
  std::vector<nlohmann::json> exchange();

  // What the next exchange() returns first: messages for somebody who hears this link later.
  void put_back(std::vector<nlohmann::json> messages) { put_back_ = std::move(messages); }
  // What a line may have from now on; a longer one is taken for a stranger's.
  void limit_lines(std::size_t bytes) { max_line_bytes_ = bytes; }
  // The peer said what cannot be: the connection is lost.
  void distrust();
  // Why the connection is lost; nothing while it is not.
  const std::optional<std::string>& lost() const { return lost_; }
  // Not lost yet, but overdue.
  bool is_doubtful() const { return Clock::now() - heard_ > kDoubtAfter; }
  bool has_unsent() const { return !unsent_.empty(); }
  const std::string& peer() const { return peer_; }

 private:
  void write_some();
  void read_some();
  std::vector<nlohmann::json> take_lines();

  Socket socket_;
  std::string peer_;
  std::string unsent_, unread_;
  std::vector<nlohmann::json> put_back_;
  std::size_t max_line_bytes_ = kMaxLineBytes;
  std::optional<std::string> lost_;
  Clock::time_point heard_, spoke_;
};

// Blocks until all peers have hung up, for at most `patience`: what was sent last arrives, which
// closing a connection with unread input would throw away.
void await_departure(std::vector<NodeLink>& links, std::chrono::milliseconds patience);

// Listens at `port` of the address of this machine that `host` stands for. Errors: kAlreadyExists
// if the port is taken, kInvalidArgument if `host` is no address of this machine.
common::Result<Socket> listen_at(const std::string& host, int port);
// The next waiting connection, if any.
std::optional<NodeLink> accept_link(const Socket& listening);
// Tries once, for at most `patience`. Error: kUnavailable, with the system's reason.
common::Result<NodeLink> dial(const std::string& host, int port,
                              std::chrono::milliseconds patience);

}  // namespace lockstep::local
