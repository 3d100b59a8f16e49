// How a unit is cut into one slice per rank, and which rank has which.
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

  int64_t padded_bytes() const { return padded_elems * static_cast<int64_t>(sizeof(float)); }
  // Slices [first, first + count), clipped to the unit.
  ElemRange slices(int first, int count) const;
};

// Note [Groups of ranks]
// Hybrid sharding keeps one copy of the model per group of N consecutive ranks, of W / N groups. A
// unit is cut into W slices as ever. The i-th ranks of all groups are replicas of one another: they
// keep slices [i W/N, (i+1) W/N), and the one in group g owns the g-th of these, that is: it sums
// its gradient over all W ranks and then gives it to its replicas. Weights are gathered inside a
// group only. With one group, rank r keeps and owns slice r.
// Source: HSDP (PyTorch FSDP), MiCS (arXiv:2205.00119).
struct Placement {
  int rank = 0;
  int world_size = 1;
  int shard_ranks = 1;  // N; divides world_size

  int num_groups() const { return world_size / shard_ranks; }
  bool is_plain() const { return num_groups() == 1; }
  // The slice that a rank owns.
  int owned(int of_rank) const {
    return of_rank % shard_ranks * num_groups() + of_rank / shard_ranks;
  }
  int first_kept() const { return rank % shard_ranks * num_groups(); }  // of num_groups() slices
};

// What a rank has of a unit: all of it, or if `sharded` the slices that the placement keeps;
// padding included.
ElemRange kept_range(const UnitSlices& layout, bool sharded, const Placement& placement);

UnitSlices plan_unit(int64_t num_elems, int world_size);
std::vector<UnitSlices> plan_units(std::span<const int64_t> unit_elems, int world_size);

}  // namespace lockstep::runtime
