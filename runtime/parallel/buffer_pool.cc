#include "runtime/parallel/buffer_pool.h"

#include <utility>

namespace lockstep::runtime {

FloatBuffer BufferPool::take(int64_t num_elems) {
  std::vector<FloatBuffer>& free = free_[num_elems];
  if (free.empty()) return FloatBuffer(num_elems);
  FloatBuffer buffer = std::move(free.back());
  free.pop_back();
  return buffer;
}

void BufferPool::give_back(FloatBuffer buffer) {
  free_[buffer.num_elems()].push_back(std::move(buffer));
}

}  // namespace lockstep::runtime
