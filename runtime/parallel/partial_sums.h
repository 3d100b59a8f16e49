// Partial sums of buffers: in the order of Note [The tree] (reduction_tree.h) a binary counter that
// holds at most one buffer per level, in running order one buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/parallel/buffer_pool.h"
#include "runtime/parallel/reduction_tree.h"

namespace lockstep::runtime {

class PartialSums {
 public:
  // Takes the next leaf; merged buffers go back to `pool`. The first leaf's buffer becomes the
  // sum's; it may be larger than the others, the rest of it is left alone.
  void push(FloatBuffer leaf, SumOrder order, BufferPool& pool);
  int64_t num_leaves() const { return num_leaves_; }
  // The sum of all leaves, folded from the youngest partial sum to the oldest. Leaves the counter
  // empty. Precondition: num_leaves() > 0.
  FloatBuffer take_sum(BufferPool& pool);

 private:
  struct Partial {
    int64_t num_leaves = 0;
    FloatBuffer sum;
  };
  // Adds the youngest partial sum to the one before it.
  void merge_youngest(BufferPool& pool);

  std::vector<Partial> partials_;  // oldest first, sizes falling
  int64_t num_leaves_ = 0;
};

}  // namespace lockstep::runtime
