#include "runtime/checkpoint/disk_thread.h"

#include <cassert>
#include <utility>

#include <pthread.h>

namespace lockstep::runtime {

using common::Result;

DiskThread::DiskThread(const char* name)
    : worker_([this, name](const std::stop_token& stop) { run(stop, name); }) {}

DiskThread::~DiskThread() = default;

void DiskThread::start(Job job) {
  const std::lock_guard lock(mutex_);
  assert(state_ == State::kIdle);
  job_ = std::move(job);
  state_ = State::kBusy;
  changed_.notify_all();
}

DiskThread::State DiskThread::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void DiskThread::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ != State::kBusy; });
}

Result<void> DiskThread::await() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ != State::kBusy; });
  state_ = State::kIdle;
  if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
  return std::exchange(result_, Result<void>());
}

// A job that was started before a stop is still carried out.
void DiskThread::run(const std::stop_token& stop, const char* name) {
  pthread_setname_np(pthread_self(), name);
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [this] { return job_ != nullptr; });
    if (job_ == nullptr) return;
    const Job job = std::exchange(job_, nullptr);
    lock.unlock();
    try {
      finish(job(), nullptr);
    } catch (...) {
      finish({}, std::current_exception());
    }
  }
}

void DiskThread::finish(Result<void> result, std::exception_ptr thrown) {
  const std::lock_guard lock(mutex_);
  state_ = thrown == nullptr && result ? State::kDone : State::kFailed;
  result_ = std::move(result);
  exception_ = std::move(thrown);
  changed_.notify_all();
}

}  // namespace lockstep::runtime
