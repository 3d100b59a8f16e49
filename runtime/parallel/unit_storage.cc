#include "runtime/parallel/unit_storage.h"

namespace lockstep::runtime {
namespace {

UnitPart allocate(const UnitSlices& layout, bool sharded, const Placement& placement) {
  if (!sharded) return {0, FloatBuffer(layout.padded_elems)};
  return {placement.first_kept() * layout.slice_elems,
          FloatBuffer(placement.num_groups() * layout.slice_elems)};
}

}  // namespace

UnitStorage::UnitStorage(const UnitSlices& layout, const UnitStorageOptions& options)
    : weights(allocate(layout, options.sharding.weights, options.placement)),
      gradient(allocate(layout, options.sharding.gradients, options.placement)) {
  const bool sharded = options.sharding.moments;
  if (options.num_moments >= 1) moment1 = allocate(layout, sharded, options.placement);
  if (options.num_moments >= 2) moment2 = allocate(layout, sharded, options.placement);
}

}  // namespace lockstep::runtime
