// Sixteen fp32 lanes on any processor: one AVX-512 register, two AVX2 registers, an array, or
// sixteen threads of a GPU.
//
// Note [One source, four instruction sets]
// Every file of this folder is compiled once per instruction set, with LOCKSTEP_ISA naming the
// namespace (attention: on processors only). A lane goes through the same IEEE operations in all of
// them, with fused multiply-add only where `fma` is written, so the bits are equal. Rules that keep
// it so:
// - Nothing here calls an inline function of the standard library or of our other headers: the
//   linker would keep one copy of it, maybe the one with AVX-512 instructions.
// - A tail uses the same operations on masked lanes, so an element's place does not matter.
// - Rows and vectors of a whole array come from for_each_row() and for_every_vec(), with a
//   LOCKSTEP_KERNEL that takes what it uses by value: a processor runs them one after the other in
//   order, a GPU all at once. A lane touches only elements that are its own in for_each_vec(); what
//   one row adds up over others is no such kernel (see kRowsInOrder).
#pragma once

#include "runtime/kernels/isa/lanes.h"

#if defined(LOCKSTEP_DEVICE_THREADS)
#include "runtime/kernels/isa/simd_device.h"
#elif defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace lockstep::runtime::LOCKSTEP_ISA {

#if !defined(LOCKSTEP_DEVICE_THREADS)

// Lanes are reduced by halving: l with l + 8, then + 4, + 2, + 1.
#if defined(__AVX2__)
LOCKSTEP_INLINE float sum_eight(__m256 a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
LOCKSTEP_INLINE float max_eight(__m256 a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
#endif

#if defined(__AVX512F__)

// Register tile of the attention products: rows, and vectors per row.
inline constexpr int kTileRows = 8;
inline constexpr int kTileVecs = 2;

struct Vec {
  __m512 v;
};
LOCKSTEP_INLINE __mmask16 mask_of(FirstLanes lanes) {
  return static_cast<__mmask16>((1U << static_cast<unsigned>(lanes.count)) - 1U);
}
LOCKSTEP_INLINE Vec broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
LOCKSTEP_INLINE Vec load(const float* p, AllLanes) {
  return {_mm512_loadu_ps(p)};
}
LOCKSTEP_INLINE Vec load(const float* p, FirstLanes lanes) {
  return {_mm512_maskz_loadu_ps(mask_of(lanes), p)};
}
LOCKSTEP_INLINE void store(float* p, Vec a, AllLanes) {
  _mm512_storeu_ps(p, a.v);
}
LOCKSTEP_INLINE void store(float* p, Vec a, FirstLanes lanes) {
  _mm512_mask_storeu_ps(p, mask_of(lanes), a.v);
}
LOCKSTEP_INLINE Vec operator+(Vec a, Vec b) {
  return {_mm512_add_ps(a.v, b.v)};
}
LOCKSTEP_INLINE Vec operator-(Vec a, Vec b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
LOCKSTEP_INLINE Vec operator*(Vec a, Vec b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
LOCKSTEP_INLINE Vec operator/(Vec a, Vec b) {
  return {_mm512_div_ps(a.v, b.v)};
}
LOCKSTEP_INLINE Vec sqrt(Vec a) {
  return {_mm512_sqrt_ps(a.v)};
}
LOCKSTEP_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// a < b ? a : b, so b if one is not a number; likewise max.
LOCKSTEP_INLINE Vec min(Vec a, Vec b) {
  return {_mm512_min_ps(a.v, b.v)};
}
LOCKSTEP_INLINE Vec max(Vec a, Vec b) {
  return {_mm512_max_ps(a.v, b.v)};
}
// The first lanes of a, the others of b.
LOCKSTEP_INLINE Vec select(FirstLanes lanes, Vec a, Vec b) {
  return {_mm512_mask_blend_ps(mask_of(lanes), b.v, a.v)};
}
// 2^n for the integer n in -127..127 that the low bits of `shifted` hold; 0 for -127.
LOCKSTEP_INLINE Vec power_of_two(Vec shifted) {
  const __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(0x3F800000)))};
}
LOCKSTEP_INLINE float sum_lanes(Vec a) {
  return sum_eight(_mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1)));
}
LOCKSTEP_INLINE float max_lanes(Vec a) {
  return max_eight(_mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1)));
}

#elif defined(__AVX2__)

inline constexpr int kTileRows = 4;
inline constexpr int kTileVecs = 1;

struct Vec {
  __m256 lo, hi;
};
struct Mask {
  __m256i lo, hi;
};
LOCKSTEP_INLINE Mask mask_of(FirstLanes lanes) {
  const __m256i count = _mm256_set1_epi32(static_cast<int>(lanes.count));
  return {_mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
          _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}
LOCKSTEP_INLINE Vec broadcast(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
LOCKSTEP_INLINE Vec load(const float* p, AllLanes) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LOCKSTEP_INLINE Vec load(const float* p, FirstLanes lanes) {
  const Mask mask = mask_of(lanes);
  return {_mm256_maskload_ps(p, mask.lo), _mm256_maskload_ps(p + 8, mask.hi)};
}
LOCKSTEP_INLINE void store(float* p, Vec a, AllLanes) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
LOCKSTEP_INLINE void store(float* p, Vec a, FirstLanes lanes) {
  const Mask mask = mask_of(lanes);
  _mm256_maskstore_ps(p, mask.lo, a.lo);
  _mm256_maskstore_ps(p + 8, mask.hi, a.hi);
}
LOCKSTEP_INLINE Vec operator+(Vec a, Vec b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
LOCKSTEP_INLINE Vec operator-(Vec a, Vec b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
LOCKSTEP_INLINE Vec operator*(Vec a, Vec b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
LOCKSTEP_INLINE Vec operator/(Vec a, Vec b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
LOCKSTEP_INLINE Vec sqrt(Vec a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
LOCKSTEP_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
LOCKSTEP_INLINE Vec min(Vec a, Vec b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
LOCKSTEP_INLINE Vec max(Vec a, Vec b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
LOCKSTEP_INLINE Vec select(FirstLanes lanes, Vec a, Vec b) {
  const Mask mask = mask_of(lanes);
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(mask.lo)),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(mask.hi))};
}
LOCKSTEP_INLINE __m256 power_of_two(__m256 shifted) {
  const __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(0x3F800000)));
}
LOCKSTEP_INLINE Vec power_of_two(Vec shifted) {
  return {power_of_two(shifted.lo), power_of_two(shifted.hi)};
}
LOCKSTEP_INLINE float sum_lanes(Vec a) {
  return sum_eight(_mm256_add_ps(a.lo, a.hi));
}
LOCKSTEP_INLINE float max_lanes(Vec a) {
  return max_eight(_mm256_max_ps(a.lo, a.hi));
}

#else

inline constexpr int kTileRows = 8;
inline constexpr int kTileVecs = 1;

struct Vec {
  float v[kLanes];
};
// The vector whose lane i is body(i).
template <class Body>
LOCKSTEP_INLINE Vec by_lane(Body body) {
  Vec out;
  for (int64_t i = 0; i < kLanes; ++i) out.v[i] = body(i);
  return out;
}
LOCKSTEP_INLINE Vec broadcast(float x) {
  return by_lane([=](int64_t) { return x; });
}
LOCKSTEP_INLINE Vec load(const float* p, AllLanes) {
  return by_lane([=](int64_t i) { return p[i]; });
}
LOCKSTEP_INLINE Vec load(const float* p, FirstLanes lanes) {
  return by_lane([=](int64_t i) { return i < lanes.count ? p[i] : 0.0F; });
}
LOCKSTEP_INLINE void store(float* p, const Vec& a, AllLanes) {
  for (int64_t i = 0; i < kLanes; ++i) p[i] = a.v[i];
}
LOCKSTEP_INLINE void store(float* p, const Vec& a, FirstLanes lanes) {
  for (int64_t i = 0; i < lanes.count; ++i) p[i] = a.v[i];
}
LOCKSTEP_INLINE Vec operator+(const Vec& a, const Vec& b) {
  return by_lane([&](int64_t i) { return a.v[i] + b.v[i]; });
}
LOCKSTEP_INLINE Vec operator-(const Vec& a, const Vec& b) {
  return by_lane([&](int64_t i) { return a.v[i] - b.v[i]; });
}
LOCKSTEP_INLINE Vec operator*(const Vec& a, const Vec& b) {
  return by_lane([&](int64_t i) { return a.v[i] * b.v[i]; });
}
LOCKSTEP_INLINE Vec operator/(const Vec& a, const Vec& b) {
  return by_lane([&](int64_t i) { return a.v[i] / b.v[i]; });
}
LOCKSTEP_INLINE Vec sqrt(const Vec& a) {
  return by_lane([&](int64_t i) { return __builtin_sqrtf(a.v[i]); });
}
LOCKSTEP_INLINE Vec fma(const Vec& a, const Vec& b, const Vec& c) {
  return by_lane([&](int64_t i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
LOCKSTEP_INLINE Vec min(const Vec& a, const Vec& b) {
  return by_lane([&](int64_t i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
LOCKSTEP_INLINE Vec max(const Vec& a, const Vec& b) {
  return by_lane([&](int64_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
LOCKSTEP_INLINE Vec select(FirstLanes lanes, const Vec& a, const Vec& b) {
  return by_lane([&](int64_t i) { return i < lanes.count ? a.v[i] : b.v[i]; });
}
LOCKSTEP_INLINE Vec power_of_two(const Vec& shifted) {
  return by_lane([&](int64_t i) {
    const uint32_t bits = (__builtin_bit_cast(uint32_t, shifted.v[i]) << 23U) + 0x3F800000U;
    return __builtin_bit_cast(float, bits);
  });
}
LOCKSTEP_INLINE float sum_lanes(Vec a) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) a.v[i] += a.v[i + half];
  }
  return a.v[0];
}
LOCKSTEP_INLINE float max_lanes(Vec a) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return a.v[0];
}

#endif

// Sixteen fp64 sums of squares.
struct SquareSums {
  double lane[kLanes] = {};
};
// Adds the squares of the first `count` (at most sixteen) elements.
LOCKSTEP_INLINE void add_squares(SquareSums& sums, const float* x, int64_t count) {
  for (int64_t l = 0; l < count; ++l) {
    const double value = static_cast<double>(x[l]);
    sums.lane[l] += value * value;
  }
}
LOCKSTEP_INLINE double sum_lanes(SquareSums sums) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) sums.lane[l] += sums.lane[l + half];
  }
  return sums.lane[0];
}

// Lanes of a register need not wait for each other.
LOCKSTEP_INLINE void sync_lanes() {}

// Whether rows run in order, so that one may add to what all of them share.
inline constexpr bool kRowsInOrder = true;

// Calls body(row) for every row.
template <class Body>
LOCKSTEP_INLINE void for_each_row(int64_t rows, const Body& body) {
  for (int64_t row = 0; row < rows; ++row) body(row);
}
// The sum of body(row) over the rows, in their order.
template <class Body>
LOCKSTEP_INLINE double sum_of_rows(int64_t rows, const Body& body) {
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) sum += body(row);
  return sum;
}
// to[row] = body(row), in the host's memory.
template <class Body>
LOCKSTEP_INLINE void put_results_of_rows(int64_t rows, double* to, const Body& body) {
  for (int64_t row = 0; row < rows; ++row) to[row] = body(row);
}
// place[index] = value, and place[index] -= value, done once for all lanes.
LOCKSTEP_INLINE void set_once(float* place, int64_t index, float value) {
  place[index] = value;
}
LOCKSTEP_INLINE void set_once(double* place, int64_t index, double value) {
  place[index] = value;
}
LOCKSTEP_INLINE void subtract_once(float* place, int64_t index, float value) {
  place[index] -= value;
}

#endif  // LOCKSTEP_DEVICE_THREADS

LOCKSTEP_INLINE Vec select(AllLanes, const Vec& a, const Vec&) {
  return a;
}
LOCKSTEP_INLINE Vec zero() {
  return broadcast(0.0F);
}

// Calls body(first element, lanes) for n elements, sixteen at a time; the last call may be partial.
template <class Body>
LOCKSTEP_INLINE void for_each_vec(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, AllLanes{});
  if (i < n) body(i, FirstLanes{n - i});
}

#if !defined(LOCKSTEP_DEVICE_THREADS)
// The same, where the vectors are those of a whole array and not of a row.
template <class Body>
LOCKSTEP_INLINE void for_every_vec(int64_t n, const Body& body) {
  for_each_vec(n, body);
}
#endif

LOCKSTEP_HOST_INLINE void fill_with_zero(int64_t n, float* x) {
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) { store(x + i, zero(), lanes); });
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA
