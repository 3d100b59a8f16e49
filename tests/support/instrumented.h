#pragma once

#include <cstdint>

// How long sweeps and walks are under AddressSanitizer and ThreadSanitizer. The instrumented
// programs are ten to thirty times slower and look for faults of memory and of threads, which a
// part of the points meets as well; what the sweep itself claims is held by the release build,
// which takes all.
namespace lockstep {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsInstrumented = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kIsInstrumented = true;
#else
inline constexpr bool kIsInstrumented = false;
#endif
#else
inline constexpr bool kIsInstrumented = false;
#endif

// Every how manieth random state or walk is taken.
inline constexpr int64_t kWalkStride = kIsInstrumented ? 20 : 1;
// Every how manieth point of an exhaustive sweep of faults is taken.
inline constexpr int kSweepStride = kIsInstrumented ? 8 : 1;

}  // namespace lockstep
