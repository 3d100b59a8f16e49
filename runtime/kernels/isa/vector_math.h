// Exponentials and logarithm, equal in bits on every instruction set.
#pragma once

#include "runtime/kernels/isa/simd.h"

namespace lockstep::runtime::LOCKSTEP_ISA {

inline constexpr float kLog2E = 1.44269504F;

// 1 + c1 r + ... + c6 r^6.
LOCKSTEP_INLINE Vec polynomial(Vec r, float c1, float c2, float c3, float c4, float c5, float c6) {
  Vec sum = fma(broadcast(c6), r, broadcast(c5));
  sum = fma(sum, r, broadcast(c4));
  sum = fma(sum, r, broadcast(c3));
  sum = fma(sum, r, broadcast(c2));
  sum = fma(sum, r, broadcast(c1));
  return fma(sum, r, broadcast(1.0F));
}

// Adding 1.5 * 2^23 rounds to the nearest integer and leaves that integer in the low bits.
inline constexpr float kRoundingShift = 12582912.0F;

// 2^x within 2 units in the last place; 0 below 2^-126.5, at most 2^127.49; not-a-number stays so.
// Minimax polynomial on [-1/2, 1/2], relative error 1.6e-8.
LOCKSTEP_INLINE Vec exp2(Vec x) {
  x = max(broadcast(-127.0F), min(broadcast(127.49F), x));
  const Vec shifted = x + broadcast(kRoundingShift);
  const Vec r = x - (shifted - broadcast(kRoundingShift));
  return polynomial(r, 0.693147182F, 0.240226477F, 0.0555033237F, 0.00961843692F, 0.0013398875F,
                    0.000153533605F) *
         power_of_two(shifted);
}

// e^x, as exp2; ln 2 is taken off in two parts (Cody and Waite), so large arguments keep their
// digits.
LOCKSTEP_INLINE Vec exp(Vec x) {
  x = max(broadcast(-88.02F), min(broadcast(88.37F), x));
  const Vec shifted = fma(x, broadcast(kLog2E), broadcast(kRoundingShift));
  const Vec n = shifted - broadcast(kRoundingShift);
  const Vec r = fma(n, broadcast(2.12194440e-4F), fma(n, broadcast(-0.693359375F), x));
  return polynomial(r, 1.0F, 0.49999994F, 0.166664317F, 0.0416680016F, 0.0083741555F,
                    0.00138436526F) *
         power_of_two(shifted);
}

// e^x - 1 without cancellation near 0, within 2^-22 of itself; as exp() far from it.
LOCKSTEP_INLINE Vec expm1(Vec x) {
  x = max(broadcast(-88.02F), min(broadcast(88.37F), x));
  const Vec shifted = fma(x, broadcast(kLog2E), broadcast(kRoundingShift));
  const Vec n = shifted - broadcast(kRoundingShift);
  const Vec r = fma(n, broadcast(2.12194440e-4F), fma(n, broadcast(-0.693359375F), x));
  Vec sum = fma(broadcast(0.00138436526F), r, broadcast(0.0083741555F));
  sum = fma(sum, r, broadcast(0.0416680016F));
  sum = fma(sum, r, broadcast(0.166664317F));
  sum = fma(sum, r, broadcast(0.49999994F));
  const Vec power = power_of_two(shifted);
  return fma(power, fma(sum * r, r, r), power - broadcast(1.0F));
}

LOCKSTEP_INLINE Vec tanh(Vec x) {
  const Vec e = expm1(max(broadcast(-20.0F), min(broadcast(20.0F), x + x)));
  return e / (e + broadcast(2.0F));
}

LOCKSTEP_INLINE Vec sigmoid(Vec x) {
  return broadcast(1.0F) / (broadcast(1.0F) + exp(zero() - x));
}

// Logarithm to base 2 of a positive normal number, to about 1e-14. Not the C library's, whose last
// bit depends on the processor: 2/ln 2 * atanh((m - 1) / (m + 1)) with m in [sqrt(1/2), sqrt(2)).
// Infinity and not-a-number come back unchanged.
LOCKSTEP_INLINE double log2(double x) {
  if (!(x <= 1.7976931348623157e308)) return x;
  uint64_t bits = __builtin_bit_cast(uint64_t, x);
  int64_t exponent = static_cast<int64_t>(bits >> 52U) - 1023;
  bits = (bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U;
  double m = __builtin_bit_cast(double, bits);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double f = (m - 1) / (m + 1);
  const double f2 = f * f;
  double series = 0;
  for (int power = 17; power >= 1; power -= 2) series = series * f2 + 1.0 / power;
  return static_cast<double>(exponent) + 2.885390081777926815 * f * series;
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA
