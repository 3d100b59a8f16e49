// Buffers that come back: gradients of micro-batches are short-lived and of few sizes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/kernels/float_buffer.h"

namespace lockstep::runtime {

// Not thread-safe: used by the training thread only.
class BufferPool {
 public:
  // A buffer of exactly `num_elems` ; contents are those of its last use, new ones zero.
  FloatBuffer take(int64_t num_elems);
  void give_back(FloatBuffer buffer);

 private:
  std::map<int64_t, std::vector<FloatBuffer>> free_;
};

}  // namespace lockstep::runtime
