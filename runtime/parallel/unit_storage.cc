#include "runtime/parallel/unit_storage.h"

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

UnitPart allocate(const UnitSlices& layout, bool sharded, const Placement& placement) {
  if (!sharded) return {0, FloatBuffer(layout.padded_elems)};
  return {placement.first_kept() * layout.slice_elems,
          FloatBuffer(placement.num_groups() * layout.slice_elems)};
}

}  // namespace

UnitStorage::UnitStorage(const UnitSlices& layout, const UnitStorageOptions& options)
    : dtype_(options.dtype) {
  const Sharding& sharding = options.sharding;
  if (!options.is_frozen) {
    gradient = allocate(layout, sharding.gradients, options.placement);
    if (options.num_moments >= 1) moment1 = allocate(layout, sharding.moments, options.placement);
    if (options.num_moments >= 2) moment2 = allocate(layout, sharding.moments, options.placement);
  }
  const bool has_copy = dtype_ != DType::kFp32;
  weights = allocate(layout, sharding.weights || (has_copy && sharding.moments), options.placement);
  if (!has_copy) return;
  copy_begin_elem_ = sharding.weights ? weights.begin_elem : 0;
  const int64_t elems = sharding.weights ? weights.values.num_elems() : layout.padded_elems;
  copy_ = FloatBuffer(elems / 2);  // slices are whole norm chunks: an even number
}

std::span<std::byte> UnitStorage::compute_bytes() const {
  return dtype_ == DType::kFp32 ? weights.values.bytes() : copy_.bytes();
}

void UnitStorage::update_copy() const {
  if (dtype_ == DType::kFp32) return;
  const int64_t offset_bytes = (weights.begin_elem - copy_begin_elem_) * common::elem_bytes(dtype_);
  narrow(weights.values.num_elems(), weights.values.data(),
         {dtype_, copy_.bytes().data() + offset_bytes});
}

}  // namespace lockstep::runtime
