#include "runtime/parallel/shard_layout.h"

#include <algorithm>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

ElemRange UnitSlices::slices(int first, int count) const {
  const int64_t begin = std::min(first * slice_elems, num_elems);
  return {begin, std::min(begin + count * slice_elems, num_elems)};
}

ElemRange kept_range(const UnitSlices& layout, bool sharded, const Placement& placement) {
  if (!sharded) return {0, layout.padded_elems};
  const int64_t begin = placement.first_kept() * layout.slice_elems;
  return {begin, begin + placement.num_groups() * layout.slice_elems};
}

UnitSlices plan_unit(int64_t num_elems, int world_size) {
  const int64_t chunks = (num_elems + kNormChunkElems - 1) / kNormChunkElems;
  const int64_t slice_chunks = (chunks + world_size - 1) / world_size;
  const int64_t slice_elems = slice_chunks * kNormChunkElems;
  return {num_elems, slice_elems, slice_elems * world_size};
}

std::vector<UnitSlices> plan_units(std::span<const int64_t> unit_elems, int world_size) {
  std::vector<UnitSlices> layouts;
  for (const int64_t num_elems : unit_elems) layouts.push_back(plan_unit(num_elems, world_size));
  return layouts;
}

}  // namespace lockstep::runtime
