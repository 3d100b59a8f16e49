// Full weights of the units in use, gathered from the ranks' slices into few persistent buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/kernels/float_buffer.h"
#include "runtime/parallel/weight_source.h"

namespace lockstep::runtime {

class UnitGatherer final : public WeightSource {
 public:
  // slices[unit]: this rank's, of the same size on every rank; empty: another gatherer has the
  // unit. They and `collective` outlive this object.
  //   num_ahead: units gathered ahead; one buffer of the largest unit each, and one for the unit in
  //   use. 0: acquire() waits for the whole gather.
  UnitGatherer(Collective& collective, std::vector<std::span<const std::byte>> slices,
               int64_t num_ahead);

  // `next` tells the direction in which units are visited: it and those after it are gathered
  // ahead, as far as buffers are free.
  const std::byte* acquire(int64_t unit, int64_t next) override;
  void release(int64_t unit) override;
  void refresh() override;

 private:
  struct Buffer {
    FloatBuffer weights;
    int64_t unit = -1;  // whose weights it holds or awaits; -1: none
    bool in_use = false;
    bool prefetched = false;  // gathered ahead and not used yet: worth keeping
    PendingPtr gather;        // null when the weights are there
  };

  Buffer* find(int64_t unit);
  // A buffer that nobody uses or awaits: an empty one, else the one whose unit is farthest from
  // `unit`, which is needed again last; null if there is none.
  Buffer* find_free(int64_t unit);
  void gather_ahead(int64_t unit, int64_t next);
  void start_gather(Buffer& buffer, int64_t unit);
  Buffer& add_buffer();

  Collective& collective_;
  std::vector<std::span<const std::byte>> slices_;
  int64_t num_ahead_;
  size_t buffer_bytes_ = 0;  // of the largest unit
  std::vector<Buffer> buffers_;
};

}  // namespace lockstep::runtime
