// What the lanes of simd.h have in common on every instruction set, and how functions of them are
// declared.
#pragma once

#include <cstdint>

// A function of lanes; the same as a member; a host function that is inlined; the captures of a
// kernel.
#if defined(LOCKSTEP_DEVICE_THREADS)
#include LOCKSTEP_DEVICE_THREADS  // defines them for threads of a device
#else
#define LOCKSTEP_INLINE static inline __attribute__((always_inline))
#define LOCKSTEP_MEMBER inline __attribute__((always_inline))
#define LOCKSTEP_KERNEL [=]
#endif
#define LOCKSTEP_HOST_INLINE static inline __attribute__((always_inline))

namespace lockstep::runtime::LOCKSTEP_ISA {

inline constexpr int64_t kLanes = 16;

// Which lanes of a vector take part in a load or store.
struct AllLanes {};
struct FirstLanes {
  int64_t count;  // 0..16; a load gives zero in the others
};

}  // namespace lockstep::runtime::LOCKSTEP_ISA
