// Sums of columns over all rows, for kernels whose rows do not run in order (kRowsInOrder).
#pragma once

#include "runtime/kernels/isa/simd.h"

namespace lockstep::runtime::LOCKSTEP_ISA {

#if defined(LOCKSTEP_DEVICE_THREADS)

// Rows that are added up by one group. Part of the arithmetic of a device.
inline constexpr int64_t kPartRows = 64;

// sums[i] = add(row, i, lanes, sum) over the rows in parts of kPartRows, from the first to the last
// of each, then over the parts.
//   sums: [n]; written.
template <class Add>
void add_up_columns(int64_t rows, int64_t n, float* sums, const Add& add) {
  const int64_t parts = (rows + kPartRows - 1) / kPartRows;
  const int64_t vecs = (n + kLanes - 1) / kLanes;
  float* const partial = parts > 1 ? device_floats(parts * n) : sums;
  for_each_row(
      parts * vecs, LOCKSTEP_KERNEL(int64_t index) {
        const int64_t part = index / vecs;
        const int64_t i = index % vecs * kLanes;
        const FirstLanes lanes{n - i < kLanes ? n - i : kLanes};
        const int64_t end = (part + 1) * kPartRows < rows ? (part + 1) * kPartRows : rows;
        Vec sum = zero();
        for (int64_t row = part * kPartRows; row < end; ++row) sum = add(row, i, lanes, sum);
        store(partial + part * n + i, sum, lanes);
      });
  if (parts <= 1) return;
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        Vec sum = zero();
        for (int64_t part = 0; part < parts; ++part) {
          sum = sum + load(partial + part * n + i, lanes);
        }
        store(sums + i, sum, lanes);
      });
}

#else

// A processor's rows run in order, so that its kernels add up in the same pass.
template <class Add>
void add_up_columns(int64_t rows, int64_t n, float* sums, const Add& add) {
  for_every_vec(n, [&](int64_t i, auto lanes) {
    Vec sum = zero();
    for (int64_t row = 0; row < rows; ++row) sum = add(row, i, lanes, sum);
    store(sums + i, sum, lanes);
  });
}

#endif

}  // namespace lockstep::runtime::LOCKSTEP_ISA
