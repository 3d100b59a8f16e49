// Ranks as threads of one process, for tests of collectives and of what stands on them.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "runtime/comm/collective.h"
#include "runtime/comm/shm_collective.h"
#include "runtime/comm/single_collective.h"

namespace lockstep::runtime {

inline constexpr std::chrono::milliseconds kGenerousTimeout{120'000};

// Path of a segment that no other test and no other process uses.
inline std::string unique_segment_path() {
  static std::atomic<int> next{0};
  return "/dev/shm/lockstep-test-" + std::to_string(getpid()) + "-" + std::to_string(next++);
}

// Calls `body(rank)` in one thread per rank; rethrows the first exception.
inline void run_ranks(int world_size, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
        }
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// A world of ranks over shared memory; one rank gets the single backend unless `slot_bytes` is
// given.
//   observers: by rank; none if empty.
inline std::vector<std::unique_ptr<Collective>> make_local_world(
    int world_size, size_t slot_bytes = 0, std::chrono::milliseconds timeout = kGenerousTimeout,
    std::span<CollectiveObserver* const> observers = {}) {
  std::vector<std::unique_ptr<Collective>> ranks;
  if (world_size == 1 && slot_bytes == 0) {
    ranks.push_back(make_single_collective());
    return ranks;
  }
  const std::string path = unique_segment_path();
  create_shm_segment(path, {.world_size = world_size,
                            .slot_bytes = slot_bytes == 0 ? ShmLayout{}.slot_bytes : slot_bytes});
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(
        make_shm_collective(std::make_unique<ShmSegment>(path, rank, world_size), timeout,
                            observers.empty() ? nullptr : observers[static_cast<size_t>(rank)]));
  }
  unlink_shm_segment(path);
  return ranks;
}

}  // namespace lockstep::runtime
