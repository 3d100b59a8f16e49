// Counter-based normal numbers: an element's value is a pure function of (seed, tensor name,
// element).
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "runtime/model/decoder.h"

namespace lockstep::runtime {
namespace {

using Words = std::array<uint32_t, 4>;

constexpr int64_t kElemsPerBlock = 4;  // one Philox block gives four words, so four normals

// Philox4x32-10. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11.
Words philox(Words counter, uint64_t seed) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  auto key0 = static_cast<uint32_t>(seed);
  auto key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// FNV-1a, 64 bits.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3;
  }
  return hash;
}

// The four standard normals of one block, by Box-Muller in fp64. Always all four by the same scalar
// code, so that an element's bits do not depend on its neighbours in a slice.
std::array<double, 4> normal_block(uint64_t seed, uint64_t name_hash, uint64_t block) {
  const Words words =
      philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
              static_cast<uint32_t>(name_hash), static_cast<uint32_t>(name_hash >> 32)},
             seed);
  std::array<double, 4> normals{};
  for (size_t pair = 0; pair < 2; ++pair) {
    const double uniform = (words[2 * pair] + 0.5) * 0x1p-32;  // in (0, 1): the logarithm is finite
    const double radius = std::sqrt(-2.0 * std::log(uniform));
    const double angle = 2.0 * std::numbers::pi * 0x1p-32 * words[2 * pair + 1];
    normals[2 * pair] = radius * std::cos(angle);
    normals[2 * pair + 1] = radius * std::sin(angle);
  }
  return normals;
}

// Elements [begin, begin + out.size()) of one normally distributed tensor.
void fill_normal(uint64_t seed, uint64_t name_hash, double deviation, int64_t begin,
                 std::span<float> out) {
  const int64_t end = begin + static_cast<int64_t>(out.size());
  for (int64_t block = begin / kElemsPerBlock; block * kElemsPerBlock < end; ++block) {
    const std::array<double, 4> normals =
        normal_block(seed, name_hash, static_cast<uint64_t>(block));
    for (int64_t i = 0; i < kElemsPerBlock; ++i) {
      const int64_t elem = block * kElemsPerBlock + i;
      if (elem < begin || elem >= end) continue;
      out[static_cast<size_t>(elem - begin)] =
          static_cast<float>(deviation * normals[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace

void initial_weights(const Unit& unit, uint64_t seed, double initializer_range, int64_t begin_elem,
                     std::span<float> out) {
  const int64_t end_elem = begin_elem + static_cast<int64_t>(out.size());
  for (const UnitTensor& tensor : unit.tensors) {
    const int64_t begin = std::max(begin_elem, tensor.begin_elem);
    const int64_t end = std::min(end_elem, tensor.begin_elem + tensor.num_elems);
    if (begin >= end) continue;
    const std::span<float> part =
        out.subspan(static_cast<size_t>(begin - begin_elem), static_cast<size_t>(end - begin));
    if (tensor.init != Init::kNormal) {
      std::fill(part.begin(), part.end(), tensor.init == Init::kOnes ? 1.0f : 0.0f);
    } else {
      fill_normal(seed, hash_name(tensor.name), initializer_range * tensor.init_scale,
                  begin - tensor.begin_elem, part);
    }
  }
}

}  // namespace lockstep::runtime
