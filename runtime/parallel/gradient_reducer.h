// From micro-batch gradients to this rank's slices of the global sum, in the order of a
// ReductionPlan, with exchanges running behind the backward that produces the next gradients.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/parallel/buffer_pool.h"
#include "runtime/parallel/partial_sums.h"
#include "runtime/parallel/reduction_tree.h"
#include "runtime/parallel/shard_layout.h"

namespace lockstep::runtime {

struct ReducerOptions {
  ReductionPlan plan;
  std::vector<UnitSlices> layouts;
  // [unit]: where the final sum goes. It also holds the oldest partial sum on the way there, so
  // that a step with one micro-batch per rank needs no other memory than exchanges under way.
  std::vector<FloatBuffer> gradients;
  // gradients[unit] is [slice_elems], this rank's; else [padded_elems] with this rank's slice in
  // place, for plans of one exchange only.
  bool sharded = true;
};

class GradientReducer {
 public:
  // Called in the same order on every rank when this rank's slice of gradients[unit] is final; may
  // issue operations.
  using OnSliceFinal = std::function<void(int64_t unit)>;

  // `collective` outlives this object.
  GradientReducer(Collective& collective, ReducerOptions options, OnSliceFinal on_slice_final);

  const ReductionPlan& plan() const { return plan_; }

  // Where the current micro-batch's gradient of `unit` is to be written: [padded_elems].
  float* buffer(int64_t unit);
  // The buffer is written. Issues and finishes exchanges as the plan has it; blocks only if more
  // than kMaxExchanges would be under way. Throws as Pending::wait().
  void ready(int64_t unit);
  // Finishes all exchanges of the step. Throws std::logic_error if a gradient of the plan is
  // missing.
  void finish();

 private:
  // Bounds the memory of buffers under way.
  static constexpr size_t kMaxExchanges = 2;

  // What this rank has of one unit in the current step.
  struct UnitState {
    FloatBuffer gradient;            // ReducerOptions::gradients; empty while it serves as a sum
    FloatBuffer current;             // handed out by buffer()
    PartialSums counter;             // of the root being summed
    std::vector<FloatBuffer> roots;  // finished ones of the current exchange
    PartialSums slice_counter;       // over exchanges
  };
  struct Exchange {
    int64_t unit = 0;
    std::vector<FloatBuffer> roots;  // sent
    FloatBuffer values;              // received: [num_rounds * world_size * slice_elems]
    std::vector<PendingPtr> rounds;  // after the buffers: destroyed, hence waited for, before them
  };

  void begin_exchange(int64_t unit);
  void finish_oldest_exchange();
  void give_back_roots(Exchange& exchange);
  void add_slice_sum(int64_t unit, const FloatBuffer& values);

  Collective& collective_;
  ReductionPlan plan_;
  std::vector<UnitSlices> layouts_;
  bool sharded_;
  OnSliceFinal on_slice_final_;
  std::vector<UnitState> units_;
  BufferPool pool_;
  std::deque<Exchange> exchanges_;  // oldest first
};

}  // namespace lockstep::runtime
