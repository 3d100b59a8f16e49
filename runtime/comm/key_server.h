// The process that holds what the ranks tell one another when they meet.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::runtime {

// Note [Frames]
// A connection begins with kKeyMagic. Then requests and answers take turns. A request is a verb
// (one byte: 's'et or 'g'et), three little-endian 32-bit numbers (milliseconds to wait, length of
// the key, length of the value), the key and the value. An answer is one byte ('y'es or 'n'o), the
// length of the value in 32 bits, and the value. A get is answered when the key has a value or the
// time is over. Who sends anything else is hung up on.
inline constexpr char kKeyMagic[] = "lockstp1";
inline constexpr std::size_t kKeyMagicBytes = sizeof(kKeyMagic) - 1;
inline constexpr std::size_t kRequestHeadBytes = 13;
inline constexpr std::size_t kAnswerHeadBytes = 5;
inline constexpr uint32_t kMaxKeyBytes = 4096;
inline constexpr uint32_t kMaxValueBytes = 64U << 20;  // Gloo tells an address per pair of ranks

void append_number(std::string& out, uint32_t number);
uint32_t number_at(const std::string& bytes, std::size_t at);

// Answers whoever dials, until it is destroyed.
class KeyServer {
 public:
  // Takes `listening`, a socket that listens. Starts a thread. Throws std::system_error.
  explicit KeyServer(int listening);
  // Closes all connections.
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  struct Wait {
    std::string key;
    Clock::time_point deadline;
  };
  struct Connection {
    int fd = -1;
    bool is_greeted = false;
    std::string in{}, out{};
    std::optional<Wait> wait{};  // of the get that is not answered yet
  };

  void run();
  int poll_timeout() const;
  void accept_all();
  // False if the connection is over.
  bool read_from(Connection& connection);
  bool take_requests(Connection& connection);
  bool carry_out(Connection& connection, char verb, uint32_t wait_ms, std::string key,
                 std::string value);
  void answer_waits();
  static void answer(Connection& connection, bool is_found, const std::string& value);
  static bool write_to(Connection& connection);

  int listening_;
  int wake_[2] = {-1, -1};  // a pipe: closing it wakes the thread
  std::map<std::string, std::string> values_{};
  std::vector<Connection> connections_{};
  std::thread thread_{};
};

}  // namespace lockstep::runtime
