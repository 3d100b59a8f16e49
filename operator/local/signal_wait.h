#pragma once

#include <chrono>

namespace lockstep::local {

// Waits until `time` is over or `signal_fd`, a signalfd, delivers a signal; true if it did, which
// is then taken. -1: only waits.
bool wait_for_signal(int signal_fd, std::chrono::milliseconds time);

}  // namespace lockstep::local
