#include "runtime/comm/futex.h"

#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::runtime {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel reads a plain word");

void futex_wait(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const std::chrono::nanoseconds rest = limit - seconds;
  const timespec timeout = {.tv_sec = seconds.count(), .tv_nsec = rest.count()};
  // Every outcome (woken, changed, interrupted, timed out) means: look at the word again.
  syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAIT, seen, &timeout, nullptr,
          0);
}

void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep::runtime
