// A binary counter of partial sums: adds buffers in the order of Note [The tree] (reduction_tree.h)
// while holding at most one buffer per level.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/parallel/buffer_pool.h"

namespace lockstep::runtime {

class PartialSums {
 public:
  // Takes the next leaf; merged buffers go back to `pool`.
  void push(FloatBuffer leaf, BufferPool& pool);
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
