// The buffers that a step's reduction takes beside the gradients themselves, by following the
// bookkeeping of runtime/parallel/gradient_reducer.cc and slice_spreader.cc without the floats.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/common/train_config.h"

namespace lockstep::common {

// A unit's slices in elements: what one rank owns, and all of them.
struct UnitSizes {
  int64_t slice = 0;
  int64_t padded = 0;
  bool is_frozen = false;  // it has no gradient
};

struct ReductionFacts {
  std::vector<UnitSizes> units;  // in model order
  Strategy strategy = Strategy::kDdp;
  ParallelismConfig config;
  int64_t ranks = 1;
  int64_t micro_batches_per_rank = 1;
};

// Bytes, of the rank that needs most.
int64_t reduction_bytes(const ReductionFacts& facts);

}  // namespace lockstep::common
