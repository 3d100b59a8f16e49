// How much of a model's gradients travels in one exchange.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::common {

// parallelism.bucketBytes, and of a small model less: a sixteenth of its gradients, so that most of
// them travel behind its backward and the buffers of exchanges are small beside it. Not below 1 MiB
// (or bucketBytes), where the time of an exchange no longer goes by its bytes.
//   gradient_bytes: of all trained units, in fp32.
inline int64_t exchange_bytes(int64_t bucket_bytes, int64_t gradient_bytes) {
  constexpr int64_t kLeastBytes = 1 << 20;
  return std::min(bucket_bytes, std::max(kLeastBytes, gradient_bytes / 16));
}

}  // namespace lockstep::common
