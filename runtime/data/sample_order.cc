#include "runtime/data/sample_order.h"

#include <bit>
#include <cassert>

namespace lockstep::runtime {
namespace {

constexpr uint64_t kNumRounds = 6;

// Source: splitmix64, S. Vigna, https://prng.di.unimi.it/splitmix64.c
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// A keyed bijection of [0, 2^(2*half_bits)).
uint64_t permute_bits(uint64_t value, uint64_t key, int half_bits) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kNumRounds; ++round) {
    const uint64_t next = left ^ (mix(key ^ mix((round << 56) ^ right)) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

int64_t sample_at(const SampleOrder& order, int64_t epoch, int64_t position) {
  assert(position >= 0 && position < order.num_samples);
  if (!order.shuffle || order.num_samples == 1) return position;
  const auto num_samples = static_cast<uint64_t>(order.num_samples);
  const int half_bits = (static_cast<int>(std::bit_width(num_samples - 1)) + 1) / 2;
  const uint64_t key = mix(order.seed ^ mix(static_cast<uint64_t>(epoch)));
  // Walking the cycle until it is back in range keeps this a bijection; the domain is less than
  // four times the range, so a few steps suffice.
  auto value = static_cast<uint64_t>(position);
  do {
    value = permute_bits(value, key, half_bits);
  } while (value >= num_samples);
  return static_cast<int64_t>(value);
}

}  // namespace lockstep::runtime
