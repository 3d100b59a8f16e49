// Sixteen fp32 lanes on a GPU: a group of sixteen neighbouring threads of a warp, one lane each.
//
// Note [Threads of a device]
// This file and the kernels see threads only through these functions, in whose terms
// cuda/cuda_threads.h has CUDA's threads and tests/runtime/kernels/emulated_threads.h threads that
// the host plays, so that the same source runs in tests on a machine without a GPU:
//   thread_index()           of this thread in its block
//   sync_lanes()             waits for the threads of the group; orders their accesses to memory
//   sync_block()             the same of the block
//   from_lane_across(v, h)   v of the lane whose number differs by the bit h
//   launch_blocks(blocks, shared_floats, body)   runs body(block, shared) on kBlockThreads threads
//                            of every block, after what was launched before, and returns at once
//   device_floats(n)         n floats of the device between the kernels of one function
//   host_doubles(n)          n doubles that kernels write and, after wait_for_kernels(), we read
// Nothing adds to memory that another group adds to (no atomics), so no order is left to chance.
#pragma once

#include "runtime/kernels/isa/lanes.h"

namespace lockstep::runtime::LOCKSTEP_ISA {

struct Vec {
  float v;
};

LOCKSTEP_INLINE int64_t lane() {
  return thread_index() % kLanes;
}
LOCKSTEP_INLINE bool takes_part(AllLanes) {
  return true;
}
LOCKSTEP_INLINE bool takes_part(FirstLanes lanes) {
  return lane() < lanes.count;
}
LOCKSTEP_INLINE Vec broadcast(float x) {
  return {x};
}
template <class Lanes>
LOCKSTEP_INLINE Vec load(const float* p, Lanes lanes) {
  return {takes_part(lanes) ? p[lane()] : 0.0F};
}
template <class Lanes>
LOCKSTEP_INLINE void store(float* p, Vec a, Lanes lanes) {
  if (takes_part(lanes)) p[lane()] = a.v;
}
LOCKSTEP_INLINE Vec operator+(Vec a, Vec b) {
  return {a.v + b.v};
}
LOCKSTEP_INLINE Vec operator-(Vec a, Vec b) {
  return {a.v - b.v};
}
LOCKSTEP_INLINE Vec operator*(Vec a, Vec b) {
  return {a.v * b.v};
}
LOCKSTEP_INLINE Vec operator/(Vec a, Vec b) {
  return {a.v / b.v};
}
LOCKSTEP_INLINE Vec sqrt(Vec a) {
  return {__builtin_sqrtf(a.v)};
}
LOCKSTEP_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return {__builtin_fmaf(a.v, b.v, c.v)};
}
LOCKSTEP_INLINE Vec min(Vec a, Vec b) {
  return {a.v < b.v ? a.v : b.v};
}
LOCKSTEP_INLINE Vec max(Vec a, Vec b) {
  return {a.v > b.v ? a.v : b.v};
}
LOCKSTEP_INLINE Vec select(FirstLanes lanes, Vec a, Vec b) {
  return takes_part(lanes) ? a : b;
}
LOCKSTEP_INLINE Vec power_of_two(Vec shifted) {
  const uint32_t bits = (__builtin_bit_cast(uint32_t, shifted.v) << 23U) + 0x3F800000U;
  return {__builtin_bit_cast(float, bits)};
}

// Every lane gets the result. `combine` takes the lower lane's value first, as the halving of other
// instruction sets does; of two lanes that meet, both then hold the same bits.
template <class Number, class Combine>
LOCKSTEP_INLINE Number halve_lanes(Number own, Combine combine) {
  for (int half = static_cast<int>(kLanes) / 2; half > 0; half /= 2) {
    const Number other = from_lane_across(own, half);
    own = (lane() & half) == 0 ? combine(own, other) : combine(other, own);
  }
  return own;
}
LOCKSTEP_INLINE float sum_lanes(Vec a) {
  return halve_lanes(a.v, [](float low, float high) { return low + high; });
}
LOCKSTEP_INLINE float max_lanes(Vec a) {
  return halve_lanes(a.v, [](float low, float high) { return low > high ? low : high; });
}

struct SquareSums {
  double lane = 0;
};
LOCKSTEP_INLINE void add_squares(SquareSums& sums, const float* x, int64_t count) {
  if (!takes_part(FirstLanes{count})) return;
  const double value = static_cast<double>(x[lane()]);
  sums.lane += value * value;
}
LOCKSTEP_INLINE double sum_lanes(SquareSums sums) {
  return halve_lanes(sums.lane, [](double low, double high) { return low + high; });
}

inline constexpr int64_t kBlockGroups = kBlockThreads / kLanes;

// One group does body(index) of a block's indices.
template <class Body>
struct GroupOfBlock {
  int64_t count;
  Body body;
  LOCKSTEP_MEMBER void operator()(int64_t block, float* /*shared*/) const {
    const int64_t index = block * kBlockGroups + thread_index() / kLanes;
    if (index < count) body(index);
  }
};
template <class Body>
void for_each_group(int64_t count, const Body& body) {
  if (count == 0) return;
  launch_blocks((count + kBlockGroups - 1) / kBlockGroups, 0, GroupOfBlock<Body>{count, body});
}

inline constexpr bool kRowsInOrder = false;

template <class Body>
void for_each_row(int64_t rows, const Body& body) {
  for_each_group(rows, body);
}

template <class Body>
struct VecOfArray {
  int64_t n;
  Body body;
  LOCKSTEP_MEMBER void operator()(int64_t group) const {
    const int64_t begin = group * kLanes;
    if (begin + kLanes <= n) {
      body(begin, AllLanes{});
    } else {
      body(begin, FirstLanes{n - begin});
    }
  }
};
template <class Body>
void for_every_vec(int64_t n, const Body& body) {
  for_each_group((n + kLanes - 1) / kLanes, VecOfArray<Body>{n, body});
}

// The lane that has an element in for_each_vec() does it.
template <class Number>
LOCKSTEP_INLINE void set_once(Number* place, int64_t index, Number value) {
  if (lane() == index % kLanes) place[index] = value;
}
LOCKSTEP_INLINE void subtract_once(float* place, int64_t index, float value) {
  if (lane() == index % kLanes) place[index] -= value;
}

template <class Body>
struct ResultOfRow {
  double* results;
  Body body;
  LOCKSTEP_MEMBER void operator()(int64_t row) const {
    const double result = body(row);
    set_once(results, row, result);
  }
};
// body(row) of every row, in the host's memory. Waits for the kernels; valid until the next call.
template <class Body>
const double* results_of_rows(int64_t rows, const Body& body) {
  double* const results = host_doubles(rows);
  for_each_row(rows, ResultOfRow<Body>{results, body});
  wait_for_kernels();
  return results;
}
template <class Body>
double sum_of_rows(int64_t rows, const Body& body) {
  const double* const results = results_of_rows(rows, body);
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) sum += results[row];
  return sum;
}
template <class Body>
void put_results_of_rows(int64_t rows, double* to, const Body& body) {
  const double* const results = results_of_rows(rows, body);
  for (int64_t row = 0; row < rows; ++row) to[row] = results[row];
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA
