// A copy of a rank's slices at one step, so that training may change them while they are written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/checkpoint/writer.h"

namespace lockstep::runtime {

class SliceSnapshot {
 public:
  // Allocates and touches all memory for slices like these, so that what does not fit fails here
  // and not at the first save: throws std::bad_alloc.
  explicit SliceSnapshot(std::span<const UnitSlice> slices);

  int64_t num_bytes() const { return static_cast<int64_t>(values_.size() * sizeof(float)); }

  // Copies `slices`, which must be as long as those of construction.
  // Returns views of the copy, valid until the next call.
  std::vector<UnitSlice> copy(std::span<const UnitSlice> slices);

 private:
  std::vector<float> values_;
};

}  // namespace lockstep::runtime
