// The training state of one unit as a rank holds it: whole, or the part that its strategy leaves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kernels/float_buffer.h"
#include "runtime/parallel/shard_layout.h"

namespace lockstep::runtime {

// Elements [begin_elem, begin_elem + values.num_elems()) of a unit, padding included.
struct UnitPart {
  int64_t begin_elem = 0;
  FloatBuffer values;

  // A view of `range`, which lies in the part; an empty one of a part without values. Stays valid
  // when `values` is moved.
  std::span<float> view(const ElemRange& range) const {
    if (values.num_elems() == 0) return {};
    return values.elems().subspan(static_cast<size_t>(range.begin_elem - begin_elem),
                                  static_cast<size_t>(range.num_elems()));
  }
};

// What a data-parallel strategy shards over the ranks; the rest every rank has whole.
//   ddp: nothing; zero1: moments; zero2: and gradients; zero3: and weights.
struct Sharding {
  bool moments = false;
  bool gradients = false;
  bool weights = false;
};

struct UnitStorageOptions {
  Sharding sharding;
  int num_moments = 2;  // of the optimizer
  Placement placement;
};

// Zeroed buffers of one unit. A moment that the optimizer does not have is empty.
struct UnitStorage {
  UnitStorage(const UnitSlices& layout, const UnitStorageOptions& options);

  UnitPart weights;
  UnitPart gradient;
  UnitPart moment1;
  UnitPart moment2;
};

}  // namespace lockstep::runtime
