// SIGTERM as a wish that ranks agree on, instead of a sudden end. SIGINT is ignored: in a terminal
// it reaches all ranks, and `lockstep run` decides what it means.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

namespace lockstep::runtime {

// From now on SIGTERM waits for a StopSignal, and SIGINT is ignored. Call it before any thread
// starts: threads inherit that a signal is blocked.
void block_stop_signals();

// Receives SIGTERM on a thread of its own from construction to destruction, after
// block_stop_signals(); one that came between the two counts. Starts as after release().
class StopSignal {
 public:
  // `exit_now` ends the process; it is called when SIGTERM comes while there is nothing to save, on
  // the thread of this object or in release(), without a lock. What it reads must be there and stay
  // as it is, or be safe to read from any thread.
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
  bool held_ = false;     // guarded by mutex_
  bool wished_ = false;   // guarded by mutex_
  bool closing_ = false;  // guarded by mutex_
  std::thread receiver_;
};

}  // namespace lockstep::runtime
