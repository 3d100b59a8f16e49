#include "runtime/parallel/slice_spreader.h"

#include <string>
#include <utility>

namespace lockstep::runtime {

SliceSpreader::SliceSpreader(Collective& group, std::vector<Bucket> buckets,
                             std::vector<std::span<float>> targets, common::DType wire)
    : group_(group),
      buckets_(std::move(buckets)),
      progress_(buckets_, targets.size()),
      targets_(std::move(targets)),
      wire_(wire) {}

void SliceSpreader::slice_final(int64_t unit) {
  for (const size_t bucket : progress_.finish_unit(unit)) begin(bucket);
}

void SliceSpreader::finish() {
  while (!gathers_.empty()) finish_oldest();
}

// The elements of `piece` in the slice of the group's rank.
std::span<float> SliceSpreader::slice(const BucketPiece& piece, int rank) const {
  const std::span<float> target = targets_[static_cast<size_t>(piece.unit)];
  const size_t slice_elems = target.size() / static_cast<size_t>(group_.world_size());
  return target.subspan(
      static_cast<size_t>(rank) * slice_elems + static_cast<size_t>(piece.begin_elem),
      static_cast<size_t>(piece.num_elems));
}

void SliceSpreader::begin(size_t index) {
  if (gathers_.size() == kMaxGathers) finish_oldest();
  const Bucket& bucket = buckets_[index];
  const std::string what = "summed gradient of " + bucket.name();
  Gather& gather = gathers_.emplace_back();
  gather.bucket = index;
  const auto slice_bytes = static_cast<size_t>(bucket.slice_elems * common::elem_bytes(wire_));
  const BucketPiece& first = bucket.pieces.front();
  const std::span<float> target = targets_[static_cast<size_t>(first.unit)];
  const auto group_size = static_cast<size_t>(group_.world_size());
  const bool in_place = wire_ == common::DType::kFp32 && bucket.pieces.size() == 1 &&
                        target.size_bytes() == slice_bytes * group_size;
  if (in_place) {
    gather.pending = group_.all_gather(std::as_bytes(slice(first, group_.rank())),
                                       std::as_writable_bytes(target), what);
    return;
  }
  gather.buffer = pool_.take(static_cast<int64_t>(slice_bytes * group_size / sizeof(float)));
  const std::span<std::byte> own =
      gather.buffer.bytes().subspan(static_cast<size_t>(group_.rank()) * slice_bytes, slice_bytes);
  std::byte* to = own.data();
  for (const BucketPiece& piece : bucket.pieces)
    to = encode(wire_, slice(piece, group_.rank()), to);
  gather.pending = group_.all_gather(own, gather.buffer.bytes(), what);
}

// Takes this rank's own slices from the wire too: every rank has the same bits.
void SliceSpreader::finish_oldest() {
  Gather gather = std::move(gathers_.front());
  gathers_.pop_front();
  gather.pending->wait();
  if (gather.buffer.data() == nullptr) return;
  const std::byte* from = gather.buffer.bytes().data();
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    for (const BucketPiece& piece : buckets_[gather.bucket].pieces) {
      from = decode(wire_, from, slice(piece, rank));
    }
  }
  pool_.give_back(std::move(gather.buffer));
}

}  // namespace lockstep::runtime
