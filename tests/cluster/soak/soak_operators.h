// Two replicas of lockstep-operator with leader election, behind a fault proxy, as a Deployment
// keeps them: one that ends is started again.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace lockstep::soak {

// Memory of one process, oldest first.
struct MemoryTrack {
  pid_t pid = -1;
  std::vector<double> resident_mb;
};

class SoakOperators {
 public:
  struct Options {
    std::string program, kubeconfig, ns;
    std::string folder;  // of their logs
  };
  explicit SoakOperators(Options options);
  ~SoakOperators();  // kills both
  SoakOperators(const SoakOperators&) = delete;
  SoakOperators& operator=(const SoakOperators&) = delete;

  // Starts those that have ended, and notes how much memory each has. Throws if one keeps ending
  // at once, as with a wrong flag.
  void tend();
  void signal(int replica, int signal);  // replica: 0 or 1
  int64_t num_starts() const { return num_starts_; }
  // Of the processes that run, and ran long enough to have a track of `least` samples.
  std::vector<MemoryTrack> tracks(std::size_t least) const;

 private:
  void start(int replica);

  const Options options_;
  std::array<MemoryTrack, 2> running_;
  std::array<std::chrono::steady_clock::time_point, 2> started_{};
  int64_t num_starts_ = 0;
  int quick_ends_ = 0;  // in a row
};

}  // namespace lockstep::soak
