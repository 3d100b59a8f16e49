// SIGTERM as a wish that ranks agree on, instead of a sudden end. SIGINT is ignored: in a terminal
// it reaches all ranks, and `lockstep run` decides what it means.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

namespace lockstep::runtime {

// Receives SIGTERM on a thread of its own from construction to destruction. Construct it before any
// other thread starts, because threads inherit that the signal is blocked.
class StopSignal {
 public:
  // `exit_now` ends the process; it is called when SIGTERM comes while there is nothing to save.
  // Starts as after hold(): release() when what `exit_now` needs is there.
  explicit StopSignal(std::function<void()> exit_now);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // From now on SIGTERM only sets wished(): ranks must agree before they exit.
  void hold();
  // From now on SIGTERM ends the process at once, and so does one that came since hold(): all is
  // saved.
  void release();
  bool wished() const;

 private:
  void receive();

  const std::function<void()> exit_now_;
  mutable std::mutex mutex_;
  bool held_ = true;      // guarded by mutex_
  bool wished_ = false;   // guarded by mutex_
  bool closing_ = false;  // guarded by mutex_
  std::thread receiver_;
};

}  // namespace lockstep::runtime
