// A slice of one unit's training state: what an optimizer runs over.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::runtime {

// A slice of one unit: fp32 master weights, final gradient and the optimizer's moments; those that
// it does not have are empty (common::num_moments()). A frozen unit has weights only. begin_elem is
// a multiple of kNormChunkElems; slices may be empty; padding is never part of a span.
struct ParamShard {
  int64_t unit = 0;
  int64_t begin_elem = 0;  // in the unit; end = begin_elem + weights.size()
  std::span<float> weights;
  std::span<float> gradient;
  std::span<float> moment1;
  std::span<float> moment2;
};

}  // namespace lockstep::runtime
