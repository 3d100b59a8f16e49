// Counter-based normal and uniform numbers: an element's value is a pure function of (seed, tensor
// name, element).
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "runtime/kernels/philox.h"
#include "runtime/model/decoder.h"

namespace lockstep::runtime {
namespace {

constexpr int64_t kElemsPerBlock = 4;  // one Philox block gives four words, so four normals

// FNV-1a, 64 bits.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3;
  }
  return hash;
}

PhiloxWords words_of(uint64_t seed, uint64_t name_hash, uint64_t block) {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                 static_cast<uint32_t>(name_hash), static_cast<uint32_t>(name_hash >> 32)},
                seed);
}

// Four numbers of one block, uniform in (-1, 1).
std::array<double, 4> uniform_block(uint64_t seed, uint64_t name_hash, uint64_t block) {
  const PhiloxWords words = words_of(seed, name_hash, block);
  std::array<double, 4> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = (words[i] + 0.5) * 0x1p-31 - 1;
  return numbers;
}

// The four standard normals of one block, by Box-Muller in fp64. Always all four by the same scalar
// code, so that an element's bits do not depend on its neighbours in a slice.
std::array<double, 4> normal_block(uint64_t seed, uint64_t name_hash, uint64_t block) {
  const PhiloxWords words = words_of(seed, name_hash, block);
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

// Elements [begin, begin + out.size()) of one tensor of random numbers.
//   block_of: four numbers of (seed, name_hash, block).
template <typename BlockOf>
void fill_random(const BlockOf& block_of, uint64_t seed, uint64_t name_hash, double factor,
                 int64_t begin, std::span<float> out) {
  const int64_t end = begin + static_cast<int64_t>(out.size());
  for (int64_t block = begin / kElemsPerBlock; block * kElemsPerBlock < end; ++block) {
    const std::array<double, 4> numbers = block_of(seed, name_hash, static_cast<uint64_t>(block));
    for (int64_t i = 0; i < kElemsPerBlock; ++i) {
      const int64_t elem = block * kElemsPerBlock + i;
      if (elem < begin || elem >= end) continue;
      out[static_cast<size_t>(elem - begin)] =
          static_cast<float>(factor * numbers[static_cast<size_t>(i)]);
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
    const uint64_t name = hash_name(tensor.name);
    const int64_t first = begin - tensor.begin_elem;
    if (tensor.init == Init::kNormal) {
      fill_random(normal_block, seed, name, initializer_range * tensor.init_scale, first, part);
    } else if (tensor.init == Init::kUniform) {
      fill_random(uniform_block, seed, name, tensor.init_scale, first, part);
    } else {
      std::fill(part.begin(), part.end(), tensor.init == Init::kOnes ? 1.0f : 0.0f);
    }
  }
}

}  // namespace lockstep::runtime
