// How a unit is cut into one slice per rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::runtime {

struct ElemRange {
  int64_t begin_elem = 0;
  int64_t end_elem = 0;
  int64_t num_elems() const { return end_elem - begin_elem; }
};

// Note [Padding of the last shard]
// Collectives move equal slices, and norms are summed over chunks of kNormChunkElems elements that
// no slice may cut. So a slice is the unit's share rounded up to whole chunks, buffers of full
// units hold world_size such slices, and a rank owns the part of its slice that lies in the unit:
// the last ranks may own less, or nothing. Padding is moved but never read as a value.
struct UnitSlices {
  int64_t num_elems = 0;
  int64_t slice_elems = 0;   // equal for all ranks
  int64_t padded_elems = 0;  // world_size * slice_elems

  // What `rank` owns, clipped to the unit.
  ElemRange owned(int rank) const;
};

UnitSlices plan_unit(int64_t num_elems, int world_size);
std::vector<UnitSlices> plan_units(std::span<const int64_t> unit_elems, int world_size);

}  // namespace lockstep::runtime
