// From micro-batch gradients to this rank's slices of the global sum, in the order of a
// ReductionPlan, with exchanges running behind the backward that produces the next gradients.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/parallel/buckets.h"
#include "runtime/parallel/buffer_pool.h"
#include "runtime/parallel/partial_sums.h"
#include "runtime/parallel/reduction_tree.h"
#include "runtime/parallel/shard_layout.h"
#include "runtime/parallel/wire.h"

namespace lockstep::runtime {

struct ReducerOptions {
  ReductionPlan plan;
  std::vector<UnitSlices> layouts;
  std::vector<Bucket> buckets;
  Placement placement;
  common::DType wire = common::DType::kFp32;
  // [unit]: where the final sum goes. It also holds the oldest partial sum on the way there, so
  // that a step with few micro-batches per rank needs no other memory than exchanges under way.
  // Empty for a unit that is in no bucket.
  std::vector<FloatBuffer> gradients;
  // gradients[unit] holds the slices that the placement keeps; else all of them, for plans of one
  // exchange only.
  bool sharded = true;
};

class GradientReducer {
 public:
  // Called in the same order on every rank when the slice of gradients[unit] that this rank owns is
  // final; may issue operations.
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
    float* own_slice = nullptr;      // in `gradient`, wherever that has been moved
    FloatBuffer current;             // handed out by buffer()
    PartialSums counter;             // of the root being summed
    std::vector<FloatBuffer> roots;  // finished ones of the current exchange
    size_t num_unsent = 0;           // pieces of the roots that were not packed yet
    FloatBuffer leaf;                // sum of an exchange, while its pieces come in
    int64_t num_summed = 0;          // elements that came in
    PartialSums slice_counter;       // over exchanges
  };
  struct Exchange {
    size_t bucket = 0;
    bool is_inside = false;         // the part inside of hosts is under way, that across is to come
    std::vector<FloatBuffer> sent;  // packed roots, or the roots themselves
    bool sends_roots = false;       // of the bucket's only unit
    FloatBuffer values;             // received: [rounds * ranks taking part * bucket slice]
    std::vector<PendingPtr> rounds;  // after the buffers: destroyed, hence waited for, before them
  };

  bool is_whole_unit(const Bucket& bucket) const;
  void begin_exchange(size_t bucket);
  FloatBuffer pack(const Bucket& bucket, int64_t round);
  void give_back_roots(UnitState& state, std::vector<FloatBuffer> roots);
  void send_across(Exchange& exchange);
  std::vector<std::span<const std::byte>> host_sums(Exchange& exchange, int64_t value_elems);
  void finish_oldest_exchange();
  void give_back_sent(Exchange& exchange);
  FloatBuffer sum_values(const Bucket& bucket, FloatBuffer values);
  void add_to_slice(const BucketPiece& piece, const float* sum);

  Collective& collective_;
  ReductionPlan plan_;
  std::vector<UnitSlices> layouts_;
  std::vector<Bucket> buckets_;
  BucketProgress progress_;
  Placement placement_;
  common::DType wire_;
  std::optional<HostReduction> hosts_;               // Note [Sums by hosts]
  common::DType first_wire_ = common::DType::kFp32;  // of the only part of an exchange, or inside
  std::vector<int> send_order_;  // ranks in the order in which their slices are packed
  bool sharded_;
  OnSliceFinal on_slice_final_;
  std::vector<UnitState> units_;
  BufferPool pool_;
  std::deque<Exchange> exchanges_;  // oldest first
};

}  // namespace lockstep::runtime
