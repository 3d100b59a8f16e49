#include "runtime/parallel/unit_storage.h"

#include "runtime/kernels/device.h"
#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

UnitPart allocate(const UnitSlices& layout, bool sharded, const Placement& placement) {
  const ElemRange kept = kept_range(layout, sharded, placement);
  return {kept.begin_elem, FloatBuffer(kept.num_elems())};
}

}  // namespace

UnitStorage::UnitStorage(const UnitSlices& layout, const UnitStorageOptions& options)
    : dtype_(options.dtype) {
  const Sharding& sharding = options.sharding;
  if (!options.is_frozen) {
    gradient = allocate(layout, sharding.gradients, options.placement);
    const int num_moments = options.is_offloaded ? 0 : options.num_moments;
    if (num_moments >= 1) moment1 = allocate(layout, sharding.moments, options.placement);
    if (num_moments >= 2) moment2 = allocate(layout, sharding.moments, options.placement);
  }
  const bool has_copy = dtype_ != DType::kFp32;
  if (!has_copy || !(options.is_offloaded || options.is_base)) {
    weights =
        allocate(layout, sharding.weights || (has_copy && sharding.moments), options.placement);
  }
  if (!has_copy) return;
  const ElemRange copied = kept_range(layout, sharding.weights, options.placement);
  copy_begin_elem_ = copied.begin_elem;
  copy_ = FloatBuffer(copied.num_elems() / 2);  // slices are whole norm chunks: an even number
}

std::span<std::byte> UnitStorage::compute_bytes() const {
  return dtype_ == DType::kFp32 ? weights.values.bytes() : copy_.bytes();
}

void UnitStorage::update_copy() const {
  if (dtype_ != DType::kFp32) update_copy(weights.begin_elem, weights.values.elems());
}

void UnitStorage::update_copy(int64_t begin_elem, std::span<const float> masters) const {
  if (masters.empty()) return;
  const int64_t offset_bytes = (begin_elem - copy_begin_elem_) * common::elem_bytes(dtype_);
  narrow(static_cast<int64_t>(masters.size()), masters.data(),
         {dtype_, copy_.bytes().data() + offset_bytes});
}

void UnitStorage::fill(int64_t begin_elem, std::span<const float> floats) const {
  if (dtype_ != DType::kFp32) return update_copy(begin_elem, floats);
  const auto count = static_cast<int64_t>(floats.size());
  const std::span<float> out = weights.view({begin_elem, begin_elem + count});
  copy_floats(count, floats.data(), out.data());
}

}  // namespace lockstep::runtime
