// Products of 16-bit operands on both paths; see Note [Paths of a product].
#include <cstdlib>
#include <stdexcept>

#include <gmock/gmock.h>

#include "runtime/kernels/gemm.h"
#include "tests/runtime/kernels/kernel_test_data.h"

namespace lockstep::runtime {
namespace {

constexpr DType kHalves[] = {DType::kBf16, DType::kFp16};

struct Case {
  GemmShape shape;
  Transpose a, b;
  float beta;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  const std::vector<GemmShape> shapes = {{1, 1, 1},     {1, 33, 17},    {7, 5, 3},
                                         {31, 65, 129}, {40, 300, 513}, {256, 96, 192}};
  for (const GemmShape& shape : shapes) {
    for (const Transpose a : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose b : {Transpose::kNo, Transpose::kYes}) {
        for (const float beta : {0.0F, 1.0F}) out.push_back({shape, a, b, beta});
      }
    }
  }
  return out;
}

// A stored matrix whose rows are 3 elements longer than they need be, at `offset` elements past an
// aligned start.
struct Stored {
  Stored(DType type, Transpose mode, int64_t rows, int64_t cols, uint64_t seed, int64_t shift)
      : dtype(type), transpose(mode), offset(shift) {
    if (mode == Transpose::kYes) std::swap(rows, cols);
    leading = cols + 3;
    const std::vector<float> values = random_floats(rows * leading, seed);
    halves.resize(values.size() + static_cast<size_t>(offset));
    narrow(rows * leading, values.data(), {dtype, halves.data() + offset});
    wide = unwritten(rows * leading);
    widen(rows * leading, {dtype, halves.data() + offset}, wide.data());
  }
  ConstMatrix matrix() const { return {{dtype, halves.data() + offset}, leading, transpose}; }
  double at(int64_t row, int64_t col) const {
    if (transpose == Transpose::kYes) std::swap(row, col);
    return static_cast<double>(wide[static_cast<size_t>(row * leading + col)]);
  }

  DType dtype;
  Transpose transpose;
  int64_t offset;
  int64_t leading = 0;
  std::vector<uint16_t> halves;
  std::vector<float> wide;
};

std::vector<float> product(ProductPath path, DType dtype, const Case& test, int64_t offset) {
  const auto [m, n, k] = test.shape;
  const Stored a(dtype, test.a, m, k, 1, offset), b(dtype, test.b, k, n, 2, offset);
  std::vector<float> c(static_cast<size_t>(offset));
  const std::vector<float> before = random_floats(m * (n + 5), 3);
  c.insert(c.end(), before.begin(), before.end());
  gemm_on(path, test.shape, a.matrix(), b.matrix(), test.beta, c.data() + offset, n + 5);
  return {c.begin() + offset, c.end()};
}

std::vector<double> reference(DType dtype, const Case& test) {
  const auto [m, n, k] = test.shape;
  const Stored a(dtype, test.a, m, k, 1, 0), b(dtype, test.b, k, n, 2, 0);
  const std::vector<float> before = random_floats(m * (n + 5), 3);
  std::vector<double> c(before.begin(), before.end());  // gaps between rows stay as they are
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double& sum = c[static_cast<size_t>(i * (n + 5) + j)];
      sum *= static_cast<double>(test.beta);
      for (int64_t p = 0; p < k; ++p) sum += a.at(i, p) * b.at(p, j);
    }
  }
  return c;
}

// Tolerance 2e-6 of the largest element, as for fp32: products of 16-bit numbers are exact, and at
// most 513 of them are added in fp32.
TEST(ProductTest, EveryPathAgreesWithDoublesForAllTransposesAndBetas) {
  for (const DType dtype : kHalves) {
    for (const Case& test : cases()) {
      const std::vector<double> want = reference(dtype, test);
      for (const ProductPath path : supported_paths(dtype)) {
        EXPECT_LT(relative_max_error(product(path, dtype, test, 0), want), 2e-6)
            << to_string(dtype) << " " << to_string(path) << " " << test.shape.m << "x"
            << test.shape.n << "x" << test.shape.k << " beta " << test.beta;
      }
    }
  }
}

TEST(ProductTest, EveryPathGivesTheSameBitsAtEveryAlignment) {
  for (const DType dtype : kHalves) {
    for (const Case& test : cases()) {
      for (const ProductPath path : supported_paths(dtype)) {
        const std::vector<float> aligned = product(path, dtype, test, 0);
        for (const int64_t offset : {1, 3, 8, 16, 29}) {
          EXPECT_TRUE(same_bits(aligned, product(path, dtype, test, offset)))
              << to_string(dtype) << " " << to_string(path) << " offset " << offset;
        }
      }
    }
  }
}

// A native path that is only imitated is slower than widening and never the usual one.
TEST(ProductTest, TheUsualPathFollowsTheProcessor) {
  EXPECT_THAT(supported_paths(DType::kFp32), testing::ElementsAre(ProductPath::kNative));
  EXPECT_THAT(supported_paths(DType::kFp16), testing::ElementsAre(ProductPath::kWidened));
  const char* const limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string isa = limit == nullptr ? "" : limit;
  const bool can_imitate = __builtin_cpu_supports("avx512bw") && isa != "AVX2";
  const bool has_bf16 = can_imitate && isa.empty() && __builtin_cpu_supports("avx512bf16");
  const std::vector<ProductPath> got = supported_paths(DType::kBf16);
  if (has_bf16) {
    EXPECT_THAT(got, testing::ElementsAre(ProductPath::kNative, ProductPath::kWidened));
  } else if (can_imitate) {
    EXPECT_THAT(got, testing::ElementsAre(ProductPath::kWidened, ProductPath::kNative));
  } else {
    EXPECT_THAT(got, testing::ElementsAre(ProductPath::kWidened));
  }
}

TEST(ProductTest, RefusesTwoTypesAndOverlappingRowsByName) {
  const std::vector<uint16_t> halves(64);
  const std::vector<float> floats(64);
  std::vector<float> c(64);
  EXPECT_THROW(
      gemm({4, 4, 4}, {{DType::kBf16, halves.data()}, 4}, {floats.data(), 4}, 0, c.data(), 4),
      std::invalid_argument);
  for (const DType dtype : kHalves) {
    for (const ProductPath path : supported_paths(dtype)) {
      try {
        gemm_on(path, {4, 4, 8}, {{dtype, halves.data()}, 2}, {{dtype, halves.data()}, 4}, 0,
                c.data(), 4);
        ADD_FAILURE() << "accepted rows that overlap";
      } catch (const std::runtime_error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("A [4, 8] N leading 2"));
      }
    }
  }
}

// product_path() in a process whose environment names `wanted`; 0 native, 1 widened, 3 refused.
int chosen_in_a_child(const char* wanted, DType dtype) {
  setenv("LOCKSTEP_PRODUCTS", wanted, 1);
  try {
    return product_path(dtype) == ProductPath::kNative ? 0 : 1;
  } catch (const std::runtime_error& error) {
    std::fputs(error.what(), stderr);
    return 3;
  }
}

TEST(ProductDeathTest, TheEnvironmentChoosesThePathAndIsRefusedByName) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::_Exit(chosen_in_a_child("widened", DType::kBf16)), testing::ExitedWithCode(1),
              "");
  EXPECT_EXIT(std::_Exit(chosen_in_a_child("native", DType::kFp16)), testing::ExitedWithCode(3),
              "LOCKSTEP_PRODUCTS is 'native', but products of fp16 take only: widened");
  EXPECT_EXIT(std::_Exit(chosen_in_a_child("avx", DType::kBf16)), testing::ExitedWithCode(3),
              "LOCKSTEP_PRODUCTS is 'avx', but products of bf16 take only: .*widened");
}

}  // namespace
}  // namespace lockstep::runtime
