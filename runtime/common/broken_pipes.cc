#include "runtime/common/broken_pipes.h"

#include <csignal>

#include <signal.h>

namespace lockstep::common {

void ignore_broken_pipes() {
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

}  // namespace lockstep::common
