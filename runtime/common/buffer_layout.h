// Offsets of the parts of one flat float buffer, each on a cache line of its own.
#pragma once

#include <cstdint>

#include "runtime/common/dtype.h"

namespace lockstep::common {

class Layout {
 public:
  static constexpr int64_t kAlignElems = 16;  // 64 bytes

  // Reserves `elems` floats and returns their offset.
  int64_t take(int64_t elems) {
    const int64_t begin = num_elems_;
    num_elems_ += (elems + kAlignElems - 1) / kAlignElems * kAlignElems;
    return begin;
  }
  // The same for `elems` elements of `dtype`, in whole floats.
  int64_t take(int64_t elems, DType dtype) {
    return take(dtype == DType::kFp32 ? elems : (elems + 1) / 2);
  }
  int64_t num_elems() const { return num_elems_; }

 private:
  int64_t num_elems_ = 0;
};

}  // namespace lockstep::common
