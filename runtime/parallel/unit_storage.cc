#include "runtime/parallel/unit_storage.h"

namespace lockstep::runtime {
namespace {

UnitPart allocate(const UnitSlices& layout, bool sharded, int rank) {
  if (!sharded) return {0, FloatBuffer(layout.padded_elems)};
  return {rank * layout.slice_elems, FloatBuffer(layout.slice_elems)};
}

}  // namespace

UnitStorage::UnitStorage(const UnitSlices& layout, const Sharding& sharding, int rank)
    : weights(allocate(layout, sharding.weights, rank)),
      gradient(allocate(layout, sharding.gradients, rank)),
      moment1(allocate(layout, sharding.moments, rank)),
      moment2(allocate(layout, sharding.moments, rank)) {}

}  // namespace lockstep::runtime
