// The board of standings of ranks that share no memory: every rank tells its peers a few times a
// second where it stands, in one datagram. Nobody serves the board, so no rank's end takes it away.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>

#include "runtime/comm/standing.h"

namespace lockstep::runtime {

struct BeaconOptions {
  int rank = 0;
  int world_size = 1;
  std::string local_address;  // numeric; peers send to it
  std::vector<int> names{};   // of a group's ranks; empty in the world
};

class Beacon final : public StandingBoard {
 public:
  static constexpr std::chrono::milliseconds kInterval{200};
  // A rank that has been heard and then not for so long counts as silent.
  static constexpr std::chrono::milliseconds kSilence{1500};

  // Takes a port of local_address. Throws std::system_error.
  explicit Beacon(const BeaconOptions& options);
  ~Beacon() override;  // says goodbye
  Beacon(const Beacon&) = delete;
  Beacon& operator=(const Beacon&) = delete;

  // Where peers reach it, for start() of all of them.
  const std::string& endpoint() const { return endpoint_; }
  // Begins to tell and to hear. What comes without the same `token` is another job's.
  //   endpoints: of all ranks, by rank. Throws std::runtime_error if one is malformed.
  void start(const std::vector<std::string>& endpoints, uint64_t token);

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  int name(int rank) const override {
    return names_.empty() ? rank : names_[static_cast<size_t>(rank)];
  }
  void post(const Standing& standing) override;
  void learn(int rank, const Standing& standing) override;
  std::optional<Standing> read(int rank) const override;
  Presence presence(int rank) const override;
  std::optional<Verdict> accuse(const Verdict& verdict) override;
  std::optional<Verdict> verdict() const override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Datagram;
  struct Peer {
    sockaddr_storage address{};
    socklen_t address_bytes = 0;
    std::optional<Standing> standing;
    std::optional<Clock::time_point> heard_at;
    bool left = false;
  };

  void run(const std::stop_token& stop);
  void receive();
  void take(const Datagram& datagram);
  void tell_all(bool leaves) const;

  const int rank_;
  const int world_size_;
  const std::vector<int> names_;
  int socket_ = -1;
  std::string endpoint_;
  uint64_t token_ = 0;

  mutable std::mutex mutex_;
  Standing own_;                    // guarded by mutex_
  std::vector<Peer> peers_;         // guarded by mutex_, but for addresses; by rank
  std::optional<Verdict> verdict_;  // guarded by mutex_
  std::jthread worker_;             // last: joined before the members that it uses die
};

}  // namespace lockstep::runtime
