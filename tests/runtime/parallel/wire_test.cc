#include "runtime/parallel/wire.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using common::DType;

std::vector<float> through(DType wire, const std::vector<float>& values) {
  std::vector<std::byte> bytes(static_cast<size_t>(elem_bytes(wire)) * values.size());
  EXPECT_EQ(encode(wire, values, bytes.data()), bytes.data() + bytes.size());
  std::vector<float> result(values.size());
  EXPECT_EQ(decode(wire, bytes.data(), result), bytes.data() + bytes.size());
  return result;
}

TEST(WireTest, Fp32PassesUnchanged) {
  const std::vector<float> values = {1.0F, -0.1F, 1e-30F, 3e38F};
  EXPECT_EQ(through(DType::kFp32, values), values);
}

TEST(WireTest, Bf16RoundsToTheNearestEven) {
  // 1 + k/256: halfway cases go to the even neighbour of 8 significant bits.
  EXPECT_EQ(
      through(DType::kBf16, {1.0F, 1.0F + 1 / 256.0F, 1.0F + 3 / 256.0F, 1.0F + 1.1F / 256.0F}),
      (std::vector<float>{1.0F, 1.0F, 1.0F + 4 / 256.0F, 1.0F + 2 / 256.0F}));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(through(DType::kBf16, {3.4e38F, -infinity, -0.0F}),
            (std::vector<float>{infinity, -infinity, -0.0F}));
  EXPECT_TRUE(std::isnan(through(DType::kBf16, {std::numeric_limits<float>::signaling_NaN()})[0]));
}

}  // namespace
}  // namespace lockstep::runtime
