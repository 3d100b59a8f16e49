// Bounds of the numbers of a training configuration.
#pragma once

#include <cstdint>

namespace lockstep::common {

inline constexpr int64_t kMaxSteps = 1'000'000'000;
// Of what is multiplied: the product of three stays within int64.
inline constexpr int64_t kMaxFactor = 1 << 20;

}  // namespace lockstep::common
