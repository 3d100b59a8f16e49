// Gradients as they travel between ranks, in fp32 or bf16. Sums are taken in fp32 either way.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/common/dtype.h"

namespace lockstep::runtime {

// Writes `values` to `to` as `wire`, rounded to the nearest even; returns the end of what was
// written.
std::byte* encode(common::DType wire, std::span<const float> values, std::byte* to);
// Fills `values` from `from`; returns the end of what was read.
const std::byte* decode(common::DType wire, const std::byte* from, std::span<float> values);

}  // namespace lockstep::runtime
