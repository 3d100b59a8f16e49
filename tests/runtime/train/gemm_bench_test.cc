#include "runtime/train/gemm_bench.h"

#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;

TEST(GemmBenchTest, EveryProductOfEveryTypeAndSizeIsRight) {
  const GemmBenchOptions options = {.dtypes = {DType::kFp32, DType::kBf16, DType::kFp16},
                                    .sizes = {1, 17, 96},
                                    .num_tokens = 33,
                                    .iterations = 2};
  int num_told = 0;
  const auto lines = bench_gemm(options, [&](const GemmLine&) { ++num_told; });
  ASSERT_EQ(lines.size(), 3U * 3U * 3U);
  EXPECT_EQ(num_told, 27);
  for (const GemmLine& line : lines) {
    EXPECT_EQ(line.num_wrong, 0) << render_gemm_line(line, 33);
    EXPECT_GT(line.seconds, 0);
    EXPECT_EQ(line.path, product_path(line.dtype));
  }
  EXPECT_EQ(lines.front().product, LayerProduct::kForward);
  EXPECT_EQ(lines.back().size, 96);
  EXPECT_EQ(gemm_json(lines, options)["results"].size(), 27U);
}

TEST(GemmBenchTest, AWrongValueIsCounted) {
  const std::array<float, 2> rows = {1, -1};
  const std::array<float, 3> columns = {1, 0, 2};
  std::array<float, 6> product = {5, 0, 10, -5, 0, -10};
  EXPECT_EQ(count_wrong_values(rows, columns, 5, product), 0);
  product[4] = 1;
  product[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(count_wrong_values(rows, columns, 5, product), 2);
}

TEST(GemmBenchTest, SpeedIsTwoOperationsForEachProductOfTwoNumbers) {
  const GemmLine line = {.size = 100, .seconds = 0.5};
  EXPECT_DOUBLE_EQ(flop_per_second(line, 10), 2.0 * 10 * 100 * 100 / 0.5);
  EXPECT_EQ(flop_per_second({.size = 100}, 10), 0);
  EXPECT_THAT(render_gemm_line({.size = 1000, .seconds = 1e-3}, 500), HasSubstr(" 1000.0 "))
      << "2 * 500 * 1000 * 1000 in a millisecond are 1000 GFLOP/s";
}

}  // namespace
}  // namespace lockstep::runtime
