// What travels in one exchange: pieces of units, joined or split to about `bucketBytes`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/parallel/shard_layout.h"

namespace lockstep::runtime {

// Elements [begin_elem, begin_elem + num_elems) of every slice of a unit.
struct BucketPiece {
  int64_t unit = 0;
  int64_t begin_elem = 0;
  int64_t num_elems = 0;
  bool operator==(const BucketPiece&) const = default;
};

struct Bucket {
  std::vector<BucketPiece> pieces;  // in the order of backward: last unit first
  int64_t slice_elems = 0;          // per rank: the sum of the pieces

  std::string name() const;  // "unit 3", "units 3 to 1"; for errors
};

// In the order of backward. A unit above `bucket_bytes` is split into equal pieces at chunk
// borders, each a bucket of its own; smaller neighbours are joined while they fit. Bytes are those
// of all slices in fp32. Every element of every slice is in exactly one bucket. Source: PyTorch
// DDP's buckets (torch/csrc/distributed/c10d/reducer.hpp), here fixed in advance.
//   frozen: [unit], those that are in no bucket; empty = none.
std::vector<Bucket> plan_buckets(std::span<const UnitSlices> layouts, int64_t bucket_bytes,
                                 const std::vector<bool>& frozen = {});

// Which buckets are complete as units come in, in rounds: a unit may come once per round.
class BucketProgress {
 public:
  BucketProgress(std::span<const Bucket> buckets, size_t num_units);

  size_t num_buckets_of(int64_t unit) const {
    return buckets_of_[static_cast<size_t>(unit)].size();
  }
  // Indices of the buckets that `unit` completes, in order; they are empty again then.
  std::vector<size_t> finish_unit(int64_t unit);

 private:
  std::vector<size_t> num_pieces_;               // [bucket]
  std::vector<size_t> num_missing_;              // [bucket]
  std::vector<std::vector<size_t>> buckets_of_;  // [unit]
};

}  // namespace lockstep::runtime
