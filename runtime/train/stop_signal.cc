#include "runtime/train/stop_signal.h"

#include <utility>

#include <pthread.h>
#include <signal.h>

namespace lockstep::runtime {
namespace {

sigset_t sigterm_only() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void block_stop_signals() {
  const sigset_t set = sigterm_only();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGINT, SIG_IGN);
}

StopSignal::StopSignal(std::function<void()> exit_now) : exit_now_(std::move(exit_now)) {
  receiver_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "stop-signal");
    receive();
  });
}

StopSignal::~StopSignal() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  pthread_kill(receiver_.native_handle(), SIGTERM);  // wakes it up
  receiver_.join();
}

void StopSignal::receive() {
  const sigset_t set = sigterm_only();
  while (true) {
    int number = 0;
    sigwait(&set, &number);
    bool exits = false;
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
      wished_ = true;
      exits = !held_;
    }
    if (exits) exit_now_();
  }
}

void StopSignal::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

void StopSignal::release() {
  bool exits = false;
  {
    const std::lock_guard lock(mutex_);
    held_ = false;
    exits = wished_;
  }
  if (exits) exit_now_();
}

bool StopSignal::wished() const {
  const std::lock_guard lock(mutex_);
  return wished_;
}

}  // namespace lockstep::runtime
