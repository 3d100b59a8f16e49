// std::mutex with the attributes of clang's thread-safety analysis, which libstdc++ leaves out.
#pragma once

#include <mutex>

#if defined(__clang__)
#define LOCKSTEP_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define LOCKSTEP_THREAD_ATTRIBUTE(x)
#endif
#define GUARDED_BY(m) LOCKSTEP_THREAD_ATTRIBUTE(guarded_by(m))
#define REQUIRES(m) LOCKSTEP_THREAD_ATTRIBUTE(requires_capability(m))

namespace lockstep::kube {

class LOCKSTEP_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() LOCKSTEP_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() LOCKSTEP_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Holds `mutex`, which outlives it, for the length of a scope.
class LOCKSTEP_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LOCKSTEP_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() LOCKSTEP_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace lockstep::kube
