#include "runtime/parallel/buckets.h"

#include <algorithm>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

void append_split(int64_t unit, const UnitSlices& layout, int64_t bucket_bytes,
                  std::vector<Bucket>& buckets) {
  const int64_t slice_chunks = layout.slice_elems / kNormChunkElems;
  const int64_t num_pieces = std::min(slice_chunks, ceil_div(layout.padded_bytes(), bucket_bytes));
  const int64_t piece_elems = ceil_div(slice_chunks, num_pieces) * kNormChunkElems;
  for (int64_t begin = 0; begin < layout.slice_elems; begin += piece_elems) {
    const int64_t num_elems = std::min(piece_elems, layout.slice_elems - begin);
    buckets.push_back({{{unit, begin, num_elems}}, num_elems});
  }
}

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const UnitSlices> layouts, int64_t bucket_bytes,
                                 const std::vector<bool>& frozen) {
  std::vector<Bucket> buckets;
  bool is_open = false;    // the last bucket may be joined
  int64_t room_bytes = 0;  // in it
  for (auto unit = static_cast<int64_t>(layouts.size()) - 1; unit >= 0; --unit) {
    const UnitSlices& layout = layouts[static_cast<size_t>(unit)];
    if (!frozen.empty() && frozen[static_cast<size_t>(unit)]) continue;
    if (layout.padded_bytes() > bucket_bytes) {
      append_split(unit, layout, bucket_bytes, buckets);
      is_open = false;
      continue;
    }
    if (!is_open || layout.padded_bytes() > room_bytes) {
      buckets.emplace_back();
      is_open = true;
      room_bytes = bucket_bytes;
    }
    buckets.back().pieces.push_back({unit, 0, layout.slice_elems});
    buckets.back().slice_elems += layout.slice_elems;
    room_bytes -= layout.padded_bytes();
  }
  return buckets;
}

std::string Bucket::name() const {
  const std::string first = std::to_string(pieces.front().unit);
  if (pieces.size() == 1) return "unit " + first;
  return "units " + first + " to " + std::to_string(pieces.back().unit);
}

BucketProgress::BucketProgress(std::span<const Bucket> buckets, size_t num_units)
    : buckets_of_(num_units) {
  for (size_t index = 0; index < buckets.size(); ++index) {
    num_pieces_.push_back(buckets[index].pieces.size());
    for (const BucketPiece& piece : buckets[index].pieces) {
      buckets_of_[static_cast<size_t>(piece.unit)].push_back(index);
    }
  }
  num_missing_ = num_pieces_;
}

std::vector<size_t> BucketProgress::finish_unit(int64_t unit) {
  std::vector<size_t> complete;
  for (const size_t bucket : buckets_of_[static_cast<size_t>(unit)]) {
    if (--num_missing_[bucket] > 0) continue;
    num_missing_[bucket] = num_pieces_[bucket];
    complete.push_back(bucket);
  }
  return complete;
}

}  // namespace lockstep::runtime
