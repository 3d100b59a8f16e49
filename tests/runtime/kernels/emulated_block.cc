#include "tests/runtime/kernels/emulated_block.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <sanitizer/asan_interface.h>
#include <setjmp.h>
#include <ucontext.h>

namespace lockstep::runtime {
namespace {

constexpr int64_t kGroup = 16;
constexpr size_t kStackBytes = size_t{128} << 10U;

enum class State { kReady, kAtLanes, kAtBlock, kDone };

// Every thread has a stack of its own and is left and entered at barriers, by _longjmp(), which
// asks nothing of the kernel. A process plays one block at a time.
class Block {
 public:
  Block(int64_t num_threads, const std::function<void()>& thread)
      : thread_(thread),
        threads_(static_cast<size_t>(num_threads)),
        slots_(2 * static_cast<size_t>(num_threads)) {
    // Kept for the next block: pages that were never touched are slow.
    static std::vector<std::unique_ptr<char[]>> stacks;
    while (stacks.size() < threads_.size()) stacks.emplace_back(new char[kStackBytes]);
    for (size_t i = 0; i < threads_.size(); ++i) {
      ASAN_UNPOISON_MEMORY_REGION(stacks[i].get(), kStackBytes);  // frames left by the block before
      ucontext_t& begin = threads_[i].begin;
      getcontext(&begin);
      begin.uc_stack.ss_sp = stacks[i].get();
      begin.uc_stack.ss_size = kStackBytes;
      begin.uc_link = nullptr;
      makecontext(&begin, &Block::enter, 0);
    }
  }

  void run() {
    while (true) {
      for (int64_t turn = 0; turn < size(); ++turn) {
        const int64_t index = thread_order() == ThreadOrder::kRising ? turn : size() - 1 - turn;
        if (at(index).state == State::kReady) resume(index);
      }
      if (count(0, size(), State::kDone) == size()) return;
      release();
    }
  }

  int64_t index() const { return running_; }

  // Slots take turns, so that none is written again before all lanes have read it.
  double exchange(double value, int bit) {
    const int64_t own = running_;
    double* const slots = slots_.data() + (at(own).has_swapped ? size() : 0);
    at(own).has_swapped = !at(own).has_swapped;
    slots[own] = value;
    leave(State::kAtLanes);
    return slots[own ^ bit];
  }

  // Leaves the running thread until run() comes back to it.
  void leave(State state) {
    Thread& thread = at(running_);
    thread.state = state;
    if (_setjmp(thread.barrier) == 0) _longjmp(scheduler_, 1);
  }

  static Block* playing;

 private:
  struct Thread {
    State state = State::kReady;
    bool has_swapped = false;
    bool has_begun = false;
    ucontext_t begin;
    jmp_buf barrier;
  };

  static void enter() {
    playing->thread_();
    playing->leave(State::kDone);
  }

  int64_t size() const { return static_cast<int64_t>(threads_.size()); }
  Thread& at(int64_t index) { return threads_[static_cast<size_t>(index)]; }

  void resume(int64_t index) {
    running_ = index;
    Thread& thread = at(index);
    if (_setjmp(scheduler_) != 0) return;
    if (thread.has_begun) _longjmp(thread.barrier, 1);
    thread.has_begun = true;
    setcontext(&thread.begin);
  }

  int64_t count(int64_t begin, int64_t end, State state) const {
    return std::count_if(threads_.begin() + begin, threads_.begin() + end,
                         [state](const Thread& thread) { return thread.state == state; });
  }
  void make_ready(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) at(i).state = State::kReady;
  }

  // Nobody is ready: opens the barriers at which all who must are there.
  void release() {
    bool is_open = false;
    for (int64_t begin = 0; begin < size(); begin += kGroup) {
      const int64_t waiting = count(begin, begin + kGroup, State::kAtLanes);
      if (waiting != 0 && waiting != kGroup) {
        throw std::logic_error("lanes of group " + std::to_string(begin / kGroup) +
                               " parted: " + std::to_string(waiting) + " of 16 wait for the rest");
      }
      if (waiting == 0) continue;
      make_ready(begin, begin + kGroup);
      is_open = true;
    }
    if (is_open) return;
    const int64_t waiting = count(0, size(), State::kAtBlock);
    if (waiting != size()) {
      throw std::logic_error("threads of a block parted: " + std::to_string(waiting) + " of " +
                             std::to_string(size()) + " wait, the rest has returned");
    }
    make_ready(0, size());
  }

  const std::function<void()>& thread_;
  std::vector<Thread> threads_;
  std::vector<double> slots_;
  jmp_buf scheduler_;
  int64_t running_ = -1;
};

Block* Block::playing = nullptr;

ThreadOrder order_of_environment() {
  const char* const wanted = std::getenv("LOCKSTEP_THREAD_ORDER");
  const bool is_falling = wanted != nullptr && std::string(wanted) == "falling";
  return is_falling ? ThreadOrder::kFalling : ThreadOrder::kRising;
}
ThreadOrder order_of_threads = order_of_environment();

}  // namespace

void set_thread_order(ThreadOrder order) {
  order_of_threads = order;
}

ThreadOrder thread_order() {
  return order_of_threads;
}

void run_emulated_block(int64_t num_threads, const std::function<void()>& thread) {
  Block block(num_threads, thread);
  Block::playing = &block;
  block.run();
}

int64_t emulated_thread_index() {
  return Block::playing->index();
}

void wait_for_emulated_lanes() {
  Block::playing->leave(State::kAtLanes);
}

void wait_for_emulated_block() {
  Block::playing->leave(State::kAtBlock);
}

double exchange_across_emulated_lanes(double value, int bit) {
  return Block::playing->exchange(value, bit);
}

}  // namespace lockstep::runtime
