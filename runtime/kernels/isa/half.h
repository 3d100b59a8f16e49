// Sixteen lanes from and to bf16 and fp16 in memory. Narrowing rounds to the nearest, ties to even,
// and gives the same bits on every instruction set, whatever flush_denormals() has set: bf16 by
// integer arithmetic (a processor's own conversion takes denormals for zero), fp16 by the
// processor's conversion, which ignores that setting, or by the same rules in integers.
#pragma once

#include "runtime/kernels/isa/simd.h"
#include "runtime/kernels/typed_values.h"

namespace lockstep::runtime::LOCKSTEP_ISA {

// A mark for generic code: the type of elements in memory.
template <class T>
struct Stored {};

// Calls body(Stored<T>{}) for the type that `dtype` names.
template <class Body>
LOCKSTEP_HOST_INLINE void with_stored_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::kFp32:
      return body(Stored<float>{});
    case DType::kBf16:
      return body(Stored<Bf16>{});
    case DType::kFp16:
      return body(Stored<Fp16>{});
  }
}

#if defined(LOCKSTEP_DEVICE_THREADS) || !defined(__AVX2__)

// One lane's conversions, where the instruction set has none for all of them.
LOCKSTEP_INLINE float widen_one(uint16_t half, Stored<Bf16>) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(half) << 16U);
}
LOCKSTEP_INLINE float widen_one(uint16_t half, Stored<Fp16>) {
  const uint32_t sign = (half & 0x8000U) << 16U;
  const uint32_t exponent = (half >> 10U) & 0x1FU;
  const uint32_t mantissa = half & 0x3FFU;
  uint32_t bits = 0;
  if (exponent == 0) {  // mantissa * 2^-24
    bits = __builtin_bit_cast(uint32_t, static_cast<float>(mantissa) * 5.9604644775390625e-8F);
  } else if (exponent == 0x1F) {
    bits = 0x7F800000U | (mantissa << 13U) | (mantissa != 0 ? 0x400000U : 0U);
  } else {
    bits = ((exponent + 112U) << 23U) | (mantissa << 13U);
  }
  return __builtin_bit_cast(float, bits | sign);
}
LOCKSTEP_INLINE uint16_t narrow_one(float value, Stored<Bf16>) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}
LOCKSTEP_INLINE uint16_t narrow_one(float value, Stored<Fp16>) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = (bits >> 16U) & 0x8000U;
  const uint32_t size = bits & 0x7FFFFFFFU;
  uint32_t half = 0;
  if (size > 0x7F800000U) {
    half = 0x7E00U | ((size >> 13U) & 0x3FFU);
  } else if (size >= 0x47800000U) {  // 65536
    half = 0x7C00U;
  } else if (size >= 0x38800000U) {  // 2^-14, the smallest normal number; carries into infinity
    const uint32_t rebiased = size - 0x38000000U;
    half = (rebiased + 0xFFFU + ((rebiased >> 13U) & 1U)) >> 13U;
  } else if (size > 0x33000000U) {  // 2^-25, half of the smallest number
    const uint32_t shift = 126U - (size >> 23U);
    const uint32_t mantissa = (size & 0x7FFFFFU) | 0x800000U;
    const uint32_t rest = mantissa & ((1U << shift) - 1U);
    const uint32_t tie = 1U << (shift - 1U);
    half = mantissa >> shift;
    if (rest > tie || (rest == tie && (half & 1U) != 0)) ++half;
  }
  return static_cast<uint16_t>(half | sign);
}

#endif

#if defined(LOCKSTEP_DEVICE_THREADS)

// This lane's.
template <class Lanes>
LOCKSTEP_INLINE uint16_t load_halves(const void* p, Lanes lanes) {
  return takes_part(lanes) ? static_cast<const uint16_t*>(p)[lane()] : uint16_t{0};
}
template <class Lanes>
LOCKSTEP_INLINE void store_halves(void* p, uint16_t half, Lanes lanes) {
  if (takes_part(lanes)) static_cast<uint16_t*>(p)[lane()] = half;
}
template <class T>
LOCKSTEP_INLINE Vec widen(uint16_t half, Stored<T> type) {
  return {widen_one(half, type)};
}
template <class T>
LOCKSTEP_INLINE uint16_t narrow(Vec a, Stored<T> type) {
  return narrow_one(a.v, type);
}

#elif defined(__AVX512F__)

LOCKSTEP_INLINE __m256i load_halves(const void* p, AllLanes) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
LOCKSTEP_INLINE __m256i load_halves(const void* p, FirstLanes lanes) {
  return _mm256_maskz_loadu_epi16(mask_of(lanes), p);
}
LOCKSTEP_INLINE void store_halves(void* p, __m256i halves, AllLanes) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), halves);
}
LOCKSTEP_INLINE void store_halves(void* p, __m256i halves, FirstLanes lanes) {
  _mm256_mask_storeu_epi16(p, mask_of(lanes), halves);
}
LOCKSTEP_INLINE Vec widen(__m256i halves, Stored<Bf16>) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}
LOCKSTEP_INLINE Vec widen(__m256i halves, Stored<Fp16>) {
  return {_mm512_cvtph_ps(halves)};
}
LOCKSTEP_INLINE __m256i narrow(Vec a, Stored<Bf16>) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i upper = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
  const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16), is_nan, quiet));
}
LOCKSTEP_INLINE __m256i narrow(Vec a, Stored<Fp16>) {
  return _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#elif defined(__AVX2__)

struct Halves {
  __m128i lo, hi;
};
LOCKSTEP_INLINE Halves load_halves(const void* p, AllLanes) {
  const auto* const from = static_cast<const __m128i*>(p);
  return {_mm_loadu_si128(from), _mm_loadu_si128(from + 1)};
}
LOCKSTEP_INLINE void store_halves(void* p, Halves halves, AllLanes) {
  auto* const to = static_cast<__m128i*>(p);
  _mm_storeu_si128(to, halves.lo);
  _mm_storeu_si128(to + 1, halves.hi);
}
LOCKSTEP_INLINE Halves load_halves(const void* p, FirstLanes lanes) {
  uint16_t padded[kLanes] = {};
  __builtin_memcpy(padded, p, static_cast<uint64_t>(lanes.count) * sizeof(uint16_t));
  return load_halves(padded, AllLanes{});
}
LOCKSTEP_INLINE void store_halves(void* p, Halves halves, FirstLanes lanes) {
  uint16_t padded[kLanes];
  store_halves(padded, halves, AllLanes{});
  __builtin_memcpy(p, padded, static_cast<uint64_t>(lanes.count) * sizeof(uint16_t));
}
LOCKSTEP_INLINE __m256 widen(__m128i halves, Stored<Bf16>) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
LOCKSTEP_INLINE __m256 widen(__m128i halves, Stored<Fp16>) {
  return _mm256_cvtph_ps(halves);
}
template <class T>
LOCKSTEP_INLINE Vec widen(Halves halves, Stored<T> type) {
  return {widen(halves.lo, type), widen(halves.hi, type)};
}
LOCKSTEP_INLINE __m128i narrow(__m256 a, Stored<Bf16>) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
  const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  const __m256i halves = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, is_nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}
LOCKSTEP_INLINE __m128i narrow(__m256 a, Stored<Fp16>) {
  return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
template <class T>
LOCKSTEP_INLINE Halves narrow(Vec a, Stored<T> type) {
  return {narrow(a.lo, type), narrow(a.hi, type)};
}

#else

struct Halves {
  uint16_t bits[kLanes];
};
// Bytes are copied, so that the compiler keeps the order of accesses where narrowing runs in place.
LOCKSTEP_INLINE Halves load_halves(const void* p, AllLanes) {
  Halves halves;
  __builtin_memcpy(halves.bits, p, sizeof(halves.bits));
  return halves;
}
LOCKSTEP_INLINE Halves load_halves(const void* p, FirstLanes lanes) {
  Halves halves = {};
  __builtin_memcpy(halves.bits, p, static_cast<uint64_t>(lanes.count) * sizeof(uint16_t));
  return halves;
}
LOCKSTEP_INLINE void store_halves(void* p, const Halves& halves, AllLanes) {
  __builtin_memcpy(p, halves.bits, sizeof(halves.bits));
}
LOCKSTEP_INLINE void store_halves(void* p, const Halves& halves, FirstLanes lanes) {
  __builtin_memcpy(p, halves.bits, static_cast<uint64_t>(lanes.count) * sizeof(uint16_t));
}
template <class T>
LOCKSTEP_INLINE Vec widen(const Halves& halves, Stored<T> type) {
  return by_lane([&](int64_t i) { return widen_one(halves.bits[i], type); });
}
template <class T>
LOCKSTEP_INLINE Halves narrow(const Vec& a, Stored<T> type) {
  Halves halves;
  for (int64_t i = 0; i < kLanes; ++i) halves.bits[i] = narrow_one(a.v[i], type);
  return halves;
}

#endif

template <class Lanes>
LOCKSTEP_INLINE Vec load(const Bf16* p, Lanes lanes) {
  return widen(load_halves(p, lanes), Stored<Bf16>{});
}
template <class Lanes>
LOCKSTEP_INLINE Vec load(const Fp16* p, Lanes lanes) {
  return widen(load_halves(p, lanes), Stored<Fp16>{});
}
template <class Lanes>
LOCKSTEP_INLINE void store(Bf16* p, const Vec& a, Lanes lanes) {
  store_halves(p, narrow(a, Stored<Bf16>{}), lanes);
}
template <class Lanes>
LOCKSTEP_INLINE void store(Fp16* p, const Vec& a, Lanes lanes) {
  store_halves(p, narrow(a, Stored<Fp16>{}), lanes);
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA
