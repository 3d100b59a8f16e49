// Inputs, error measure and bit comparison of the kernel tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/kernels/kernel_table.h"

namespace lockstep::runtime {

// `n` numbers in [-scale, scale), the same for the same seed.
inline std::vector<float> random_floats(int64_t n, uint64_t seed, double scale = 1) {
  std::vector<float> out(static_cast<size_t>(n));
  uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (float& x : out) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const double unit = static_cast<double>(state >> 11U) / 9007199254740992.0;
    x = static_cast<float>(scale * (2 * unit - 1));
  }
  return out;
}

// max |a - b| / max |b|; not a number if an element is not.
template <class A>
double relative_max_error(const std::vector<A>& a, const std::vector<double>& b) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(difference)) return difference;
    error = std::max(error, difference);
    size = std::max(size, std::abs(b[i]));
  }
  return size > 0 ? error / size : error;
}

inline bool same_bits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), static_cast<int64_t>(a.size()));
}

// A vector of `n` elements that are all garbage: a kernel must write every one.
inline std::vector<float> unwritten(int64_t n) {
  return std::vector<float>(static_cast<size_t>(n), -7.5e30F);
}

}  // namespace lockstep::runtime
