// A block of a GPU's threads, played by the host one thread at a time.
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::runtime {

// Which threads, and blocks, come first between two barriers. Kernels whose bits differ between the
// two have a race.
enum class ThreadOrder { kRising, kFalling };

// The order of what is launched from now on; at first the one that the environment variable
// LOCKSTEP_THREAD_ORDER names ("falling").
void set_thread_order(ThreadOrder order);
ThreadOrder thread_order();

// Runs `thread` as each of `num_threads` threads of a block until all have returned. Threads take
// turns at barriers only. Throws std::logic_error where a GPU hangs or does what it likes: a thread
// has returned, or waits at the other kind of barrier, while others wait for it.
void run_emulated_block(int64_t num_threads, const std::function<void()>& thread);

// For the thread that runs.
int64_t emulated_thread_index();
void wait_for_emulated_lanes();  // of its sixteen
void wait_for_emulated_block();
// `value` of the thread of the sixteen whose number differs by `bit`.
double exchange_across_emulated_lanes(double value, int bit);

}  // namespace lockstep::runtime
