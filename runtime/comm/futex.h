// Sleeping on a word of shared memory until another process changes it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::runtime {

// Sleeps while `word` holds `seen`, at most `limit`; may return early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds limit);
// Tells the core that this is a busy wait.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Wakes all sleepers on `word`, in all processes.
void futex_wake(std::atomic<uint32_t>& word);

}  // namespace lockstep::runtime
