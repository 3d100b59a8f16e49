// Threads that the host plays, for isa/simd_device.h (Note [Threads of a device] there).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/runtime/kernels/emulated_block.h"

#define LOCKSTEP_INLINE static inline
#define LOCKSTEP_MEMBER inline
#define LOCKSTEP_KERNEL [=]
#define LOCKSTEP_UNROLL

namespace lockstep::runtime::LOCKSTEP_ISA {

inline constexpr int64_t kBlockThreads = 256;

LOCKSTEP_INLINE int64_t thread_index() {
  return emulated_thread_index();
}
LOCKSTEP_INLINE void sync_lanes() {
  wait_for_emulated_lanes();
}
LOCKSTEP_INLINE void sync_block() {
  wait_for_emulated_block();
}
template <class Number>
LOCKSTEP_INLINE Number from_lane_across(Number value, int half) {
  return static_cast<Number>(exchange_across_emulated_lanes(value, half));
}

template <class Body>
void launch_blocks(int64_t blocks, int64_t shared_floats, const Body& body) {
  for (int64_t turn = 0; turn < blocks; ++turn) {
    const int64_t block = thread_order() == ThreadOrder::kRising ? turn : blocks - 1 - turn;
    // Shared memory begins as garbage.
    std::vector<float> shared(static_cast<size_t>(shared_floats),
                              std::numeric_limits<float>::quiet_NaN());
    run_emulated_block(kBlockThreads, [&] { body(block, shared.data()); });
  }
}

inline float* device_floats(int64_t n) {
  static std::vector<float> floats;
  floats.assign(static_cast<size_t>(n), std::numeric_limits<float>::quiet_NaN());
  return floats.data();
}
inline double* host_doubles(int64_t n) {
  static std::vector<double> doubles;
  doubles.assign(static_cast<size_t>(n), std::numeric_limits<double>::quiet_NaN());
  return doubles.data();
}
inline void wait_for_kernels() {}

}  // namespace lockstep::runtime::LOCKSTEP_ISA
