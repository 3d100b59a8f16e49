#include "runtime/parallel/partial_sums.h"

#include <utility>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

void PartialSums::push(FloatBuffer leaf, SumOrder order, BufferPool& pool) {
  partials_.push_back({1, std::move(leaf)});
  ++num_leaves_;
  while (partials_.size() > 1 &&
         (order == SumOrder::kRunning ||
          partials_[partials_.size() - 2].num_leaves == partials_.back().num_leaves)) {
    merge_youngest(pool);
  }
}

FloatBuffer PartialSums::take_sum(BufferPool& pool) {
  while (partials_.size() > 1) merge_youngest(pool);
  FloatBuffer sum = std::move(partials_.back().sum);
  partials_.clear();
  num_leaves_ = 0;
  return sum;
}

void PartialSums::merge_youngest(BufferPool& pool) {
  Partial right = std::move(partials_.back());
  partials_.pop_back();
  Partial& left = partials_.back();
  add_in_place(right.sum.num_elems(), right.sum.data(), left.sum.data());
  left.num_leaves += right.num_leaves;
  pool.give_back(std::move(right.sum));
}

}  // namespace lockstep::runtime
