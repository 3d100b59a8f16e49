#include "runtime/checkpoint/slice_snapshot.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace lockstep::runtime {
namespace {

std::size_t num_values(std::span<const UnitSlice> slices) {
  std::size_t sum = 0;
  for (const UnitSlice& slice : slices) {
    sum += slice.weights.size() + slice.moment1.size() + slice.moment2.size();
  }
  return sum;
}

}  // namespace

SliceSnapshot::SliceSnapshot(std::span<const UnitSlice> slices) : values_(num_values(slices)) {}

std::vector<UnitSlice> SliceSnapshot::copy(std::span<const UnitSlice> slices) {
  if (num_values(slices) != values_.size()) {
    throw std::logic_error("a snapshot of slices of another size");
  }
  std::span<float> rest = values_;
  const auto take = [&rest](std::span<const float> from) {
    const std::span<float> copied = rest.first(from.size());
    std::copy(from.begin(), from.end(), copied.begin());
    rest = rest.subspan(from.size());
    return copied;
  };
  std::vector<UnitSlice> copies;
  copies.reserve(slices.size());
  for (const UnitSlice& slice : slices) {
    copies.push_back({.unit = slice.unit,
                      .begin_elem = slice.begin_elem,
                      .weights = take(slice.weights),
                      .moment1 = take(slice.moment1),
                      .moment2 = take(slice.moment2)});
  }
  return copies;
}

}  // namespace lockstep::runtime
