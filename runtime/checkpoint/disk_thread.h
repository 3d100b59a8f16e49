// A thread that carries out one job at a time: what is written behind training's back.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "runtime/common/result.h"

namespace lockstep::runtime {

// Used by one thread, its owner. What a job writes may be read by the owner after await().
class DiskThread {
 public:
  using Job = std::function<common::Result<void>()>;
  enum class State {
    kIdle,    // no job, or it was awaited
    kBusy,    // the job is under way
    kDone,    // it succeeded; await() will not block
    kFailed,  // it returned an error or threw; await() will not block
  };

  // `name`: of the thread, at most 15 characters.
  explicit DiskThread(const char* name = "lockstep-disk");
  ~DiskThread();  // waits for the job under way
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;

  // Begins `job` and returns at once. Precondition: state() is kIdle.
  void start(Job job);
  State state() const;
  // Blocks until no job is under way; its outcome stays for await().
  void wait() const;
  // Blocks until the job is over and returns its outcome, or throws what it threw; success if there
  // is none. The state is then kIdle.
  common::Result<void> await();

 private:
  void run(const std::stop_token& stop, const char* name);
  void finish(common::Result<void> result, std::exception_ptr thrown);

  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  State state_ = State::kIdle;    // guarded by mutex_
  Job job_;                       // guarded by mutex_
  common::Result<void> result_;   // guarded by mutex_
  std::exception_ptr exception_;  // guarded by mutex_
  std::jthread worker_;           // last: joined before the members that it uses die
};

}  // namespace lockstep::runtime
