// Full weights of the units in use, gathered from the ranks' slices into few persistent buffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/kernels/float_buffer.h"
#include "runtime/parallel/shard_layout.h"

namespace lockstep::runtime {

class UnitGatherer {
 public:
  // slices[unit]: [slice_elems] weights of this rank; they and `collective` outlive this object.
  UnitGatherer(Collective& collective, std::vector<UnitSlices> layouts,
               std::vector<std::span<const float>> slices);

  // Weights of `unit`, valid until release(unit); starts to gather `next` (-1: none) if a buffer is
  // free. Blocks until `unit` is there. Throws as Pending::wait().
  const float* acquire(int64_t unit, int64_t next);
  void release(int64_t unit);
  // The slices are about to change: what was gathered is void. No unit may be in use.
  void invalidate();

 private:
  struct Buffer {
    FloatBuffer weights;
    int64_t unit = -1;  // whose weights it holds or awaits; -1: none
    bool in_use = false;
    bool prefetched = false;  // gathered ahead and not used yet: worth keeping
    PendingPtr gather;        // null when the weights are there
  };

  Buffer* find(int64_t unit);
  // A buffer that nobody uses or awaits, an empty one first; null if there is none.
  Buffer* find_free();
  void start_gather(Buffer& buffer, int64_t unit);
  Buffer& add_buffer();

  Collective& collective_;
  std::vector<UnitSlices> layouts_;
  std::vector<std::span<const float>> slices_;
  int64_t buffer_elems_ = 0;  // of the largest unit, padded
  std::vector<Buffer> buffers_;
};

}  // namespace lockstep::runtime
