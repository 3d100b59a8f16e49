#include "runtime/kernels/cuda/cublas_call.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/runtime/kernels/kernel_test_data.h"

namespace lockstep::runtime {
namespace {

// Element (row, col) of an operand as cuBLAS reads it: by columns, `leading` apart.
float by_columns(const ConstMatrix& matrix, int64_t row, int64_t col) {
  const auto* const data = static_cast<const float*>(matrix.data.data);
  if (matrix.transpose == Transpose::kYes) return data[col + row * matrix.leading];
  return data[row + col * matrix.leading];
}

// What cublasGemmEx() is documented to do.
void carry_out(const CublasCall& call, float beta, float* c, int64_t c_leading) {
  for (int64_t col = 0; col < call.shape.n; ++col) {
    for (int64_t row = 0; row < call.shape.m; ++row) {
      float sum = beta * c[row + col * c_leading];
      for (int64_t k = 0; k < call.shape.k; ++k) {
        sum += by_columns(call.first, row, k) * by_columns(call.second, k, col);
      }
      c[row + col * c_leading] = sum;
    }
  }
}

// Whole numbers, so that no order of sums matters; rows with gaps.
std::vector<float> whole_numbers(int64_t n, uint64_t seed) {
  std::vector<float> values = random_floats(n, seed, 9);
  for (float& value : values) value = std::round(value);
  return values;
}

TEST(CublasCallTest, ByColumnsIsTheProductByRows) {
  const GemmShape shape = {.m = 3, .n = 5, .k = 7};
  const int64_t c_leading = 6;
  for (const Transpose of_a : {Transpose::kNo, Transpose::kYes}) {
    for (const Transpose of_b : {Transpose::kNo, Transpose::kYes}) {
      const std::vector<float> a = whole_numbers(70, 1), b = whole_numbers(70, 2);
      const ConstMatrix left = {a.data(), 8, of_a}, right = {b.data(), 9, of_b};
      std::vector<float> want = whole_numbers(20, 3), got = want;
      gemm(shape, left, right, 2, want.data(), c_leading);
      carry_out(cublas_call(shape, left, right), 2, got.data(), c_leading);
      EXPECT_EQ(got, want);
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
