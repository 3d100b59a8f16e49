// Whether this process may still write.
#pragma once

#include <atomic>

#include "operator/kube/boot_clock.h"

namespace lockstep::kube {

// Opened by the election, asked before every write; safe from any thread. It closes by itself at
// its deadline, so a process that was stopped for a while finds it closed before it does anything
// else.
class WriteFence {
 public:
  void open_until(BootClock::time_point deadline) { deadline_ = deadline.time_since_epoch(); }
  void close() { deadline_ = BootClock::duration::min(); }
  bool is_open() const { return BootClock::now().time_since_epoch() < deadline_.load(); }

 private:
  std::atomic<BootClock::duration> deadline_ = BootClock::duration::min();
};

}  // namespace lockstep::kube
