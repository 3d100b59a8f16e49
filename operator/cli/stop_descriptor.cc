#include "operator/cli/stop_descriptor.h"

#include <csignal>

#include <sys/signalfd.h>

namespace lockstep::cli {

int stop_descriptor() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

}  // namespace lockstep::cli
