// The clock that leases are judged by.
#pragma once

#include <chrono>

#include <time.h>

namespace lockstep::kube {

// Time since this machine started, with the time that it slept. steady_clock stands still while a
// machine is suspended, so a leader that wakes up would take its lease for fresh.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;  // NOLINT(readability-identifier-naming): a Clock's name

  static time_point now() {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

}  // namespace lockstep::kube
