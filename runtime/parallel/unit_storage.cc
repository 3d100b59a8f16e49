#include "runtime/parallel/unit_storage.h"

namespace lockstep::runtime {
namespace {

UnitPart allocate(const UnitSlices& layout, bool sharded, const Placement& placement) {
  if (!sharded) return {0, FloatBuffer(layout.padded_elems)};
  return {placement.first_kept() * layout.slice_elems,
          FloatBuffer(placement.num_groups() * layout.slice_elems)};
}

}  // namespace

UnitStorage::UnitStorage(const UnitSlices& layout, const Sharding& sharding,
                         const Placement& placement)
    : weights(allocate(layout, sharding.weights, placement)),
      gradient(allocate(layout, sharding.gradients, placement)),
      moment1(allocate(layout, sharding.moments, placement)),
      moment2(allocate(layout, sharding.moments, placement)) {}

}  // namespace lockstep::runtime
