#include "operator/local/signal_wait.h"

#include <sys/poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace lockstep::local {

bool wait_for_signal(int signal_fd, std::chrono::milliseconds time) {
  pollfd watched{signal_fd, POLLIN, 0};
  if (poll(&watched, 1, static_cast<int>(time.count())) <= 0) return false;
  signalfd_siginfo info{};
  return read(signal_fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info);
}

}  // namespace lockstep::local
