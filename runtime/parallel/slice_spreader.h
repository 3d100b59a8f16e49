// Gives this rank's final slices of gradients to the ranks that keep them too: all of them under
// ddp, the replicas of its slice under hybrid sharding.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/parallel/buckets.h"
#include "runtime/parallel/buffer_pool.h"
#include "runtime/parallel/wire.h"

namespace lockstep::runtime {

class SliceSpreader {
 public:
  // targets[unit]: consecutive slices, one per rank of `group` in its order, this rank's in place;
  // they and `group` outlive this object.
  SliceSpreader(Collective& group, std::vector<Bucket> buckets,
                std::vector<std::span<float>> targets, common::DType wire);

  // This rank's slice of targets[unit] is final. Must be called in the same order on every rank;
  // issues the exchanges of the buckets that it completes. Blocks only if more than kMaxGathers
  // would be under way. Throws as Pending::wait().
  void slice_final(int64_t unit);
  // Waits until all slices of the step are there.
  void finish();

 private:
  static constexpr size_t kMaxGathers = 2;  // bounds the memory of buffers under way

  struct Gather {
    size_t bucket = 0;
    FloatBuffer buffer;  // [group size * bucket slice], on the wire; empty if gathered in place
    PendingPtr pending;  // after the buffer: destroyed, hence waited for, before it
  };

  std::span<float> slice(const BucketPiece& piece, int rank) const;
  void begin(size_t bucket);
  void finish_oldest();

  Collective& group_;
  std::vector<Bucket> buckets_;
  BucketProgress progress_;
  std::vector<std::span<float>> targets_;
  common::DType wire_;
  BufferPool pool_;
  std::deque<Gather> gathers_;  // oldest first
};

}  // namespace lockstep::runtime
