#include "runtime/kernels/gemm.h"

#include <stdexcept>

#include <gmock/gmock.h>

#include "tests/runtime/kernels/kernel_test_data.h"

namespace lockstep::runtime {
namespace {

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
        out.push_back({shape, a, b, 0});
        out.push_back({shape, a, b, 1});
      }
    }
  }
  return out;
}

// Rows of storage are 3 elements longer than the matrix.
int64_t leading(Transpose transpose, int64_t rows, int64_t cols) {
  return (transpose == Transpose::kYes ? rows : cols) + 3;
}

int64_t stored_elems(Transpose transpose, int64_t rows, int64_t cols) {
  return (transpose == Transpose::kYes ? cols : rows) * leading(transpose, rows, cols);
}

double element(const std::vector<float>& data, int64_t lead, Transpose transpose, int64_t row,
               int64_t col) {
  const int64_t place = transpose == Transpose::kYes ? col * lead + row : row * lead + col;
  return static_cast<double>(data[static_cast<size_t>(place)]);
}

struct Operands {
  std::vector<float> a, b, c;
  int64_t a_leading, b_leading, c_leading;
};

Operands operands(const Case& test) {
  const auto [m, n, k] = test.shape;
  return {random_floats(stored_elems(test.a, m, k), 1),
          random_floats(stored_elems(test.b, k, n), 2),
          random_floats(m * (n + 5), 3),
          leading(test.a, m, k),
          leading(test.b, k, n),
          n + 5};
}

// The product with every buffer moved by `offset` elements.
std::vector<float> product(const Case& test, const Operands& in, int64_t offset) {
  const auto moved = [offset](const std::vector<float>& from) {
    std::vector<float> out(static_cast<size_t>(offset), 0.0F);
    out.insert(out.end(), from.begin(), from.end());
    return out;
  };
  const std::vector<float> a = moved(in.a);
  const std::vector<float> b = moved(in.b);
  std::vector<float> c = moved(in.c);
  gemm(test.shape, {a.data() + offset, in.a_leading, test.a},
       {b.data() + offset, in.b_leading, test.b}, test.beta, c.data() + offset, in.c_leading);
  return {c.begin() + offset, c.end()};
}

// Tolerance 2e-6 of the largest element: fp32 sums over at most 513 terms.
TEST(GemmTest, AgreesWithDoublesForAllTransposesAndBetas) {
  for (const Case& test : cases()) {
    const Operands in = operands(test);
    const std::vector<float> got = product(test, in, 0);
    std::vector<double> want(in.c.begin(), in.c.end());  // the gaps between rows stay as they are
    for (int64_t i = 0; i < test.shape.m; ++i) {
      for (int64_t j = 0; j < test.shape.n; ++j) {
        double& sum = want[static_cast<size_t>(i * in.c_leading + j)];
        sum *= static_cast<double>(test.beta);
        for (int64_t p = 0; p < test.shape.k; ++p) {
          sum +=
              element(in.a, in.a_leading, test.a, i, p) * element(in.b, in.b_leading, test.b, p, j);
        }
      }
    }
    EXPECT_LT(relative_max_error(got, want), 2e-6)
        << test.shape.m << "x" << test.shape.n << "x" << test.shape.k << " beta " << test.beta;
  }
}

TEST(GemmTest, GivesTheSameBitsAtEveryAlignment) {
  for (const Case& test : cases()) {
    const Operands in = operands(test);
    const std::vector<float> aligned = product(test, in, 0);
    for (const int64_t offset : {1, 3, 4, 8, 13, 16}) {
      EXPECT_TRUE(same_bits(aligned, product(test, in, offset))) << "offset " << offset;
    }
  }
}

TEST(GemmTest, TakesAnEmptyInnerDimensionAsZero) {
  std::vector<float> c = {1, 2, 3, 4};
  gemm({2, 2, 0}, {{}, 1}, {{}, 2}, 1, c.data(), 2);
  EXPECT_THAT(c, testing::ElementsAre(1, 2, 3, 4));
  gemm({2, 2, 0}, {{}, 1}, {{}, 2}, 0, c.data(), 2);
  EXPECT_THAT(c, testing::ElementsAre(0, 0, 0, 0));
}

TEST(GemmTest, NamesTheShapeWhenItIsRefused) {
  const std::vector<float> a(64), b(64);
  std::vector<float> c(64);
  try {
    gemm({4, 4, 8}, {a.data(), 2}, {b.data(), 4}, 0, c.data(), 4);  // leading 2 < 8 columns
    FAIL() << "accepted rows that overlap";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("A [4, 8] N leading 2"));
  }
}

}  // namespace
}  // namespace lockstep::runtime
