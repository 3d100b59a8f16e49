// Which elements decay.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/optim/param_shard.h"

namespace lockstep::runtime {

// Elements [begin_elem, end_elem) of a unit, with or without weight decay.
struct DecayRange {
  int64_t begin_elem = 0;
  int64_t end_elem = 0;
  bool decays = true;
};

// By unit: contiguous, in order, covering the unit (see decay_ranges() in parallel/).
using DecayRanges = std::vector<std::vector<DecayRange>>;

// Calls `update(offset, num_elems, decays)` for each part of `shard` that lies in one range; offset
// counts from the shard's first element. A frozen unit has none.
template <typename Update>
void for_each_decay_range(const DecayRanges& ranges, const ParamShard& shard,
                          const Update& update) {
  if (shard.gradient.empty()) return;
  const auto shard_end = shard.begin_elem + static_cast<int64_t>(shard.weights.size());
  for (const DecayRange& range : ranges[static_cast<size_t>(shard.unit)]) {
    const int64_t begin = std::max(range.begin_elem, shard.begin_elem);
    const int64_t end = std::min(range.end_elem, shard_end);
    if (begin < end) update(begin - shard.begin_elem, end - begin, range.decays);
  }
}

}  // namespace lockstep::runtime
