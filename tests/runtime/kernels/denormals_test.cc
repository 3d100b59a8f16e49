#include "runtime/kernels/denormals.h"

#include <thread>

#include <gtest/gtest.h>

#include "runtime/kernels/gemm.h"
#include "tests/runtime/kernels/kernel_test_data.h"

namespace lockstep::runtime {
namespace {

constexpr float kDenormal = 1e-40F;

// The product, computed at run time by whichever thread calls.
float times(float a, float b) {
  volatile float left = a;
  return left * b;
}

// Runs `body` with flushed denormals on a thread of its own: the setting dies with it.
template <typename Body>
void with_flushed_denormals(const Body& body) {
  std::thread([&] {
    flush_denormals();
    body();
  }).join();
}

TEST(DenormalsTest, InputsAndResultsAreZeroInTheThreadAndThoseThatItStarts) {
  with_flushed_denormals([] {
    EXPECT_EQ(times(kDenormal, 1e10F), 0);
    EXPECT_EQ(times(1e-20F, 1e-20F), 0);
    std::thread([] { EXPECT_EQ(times(kDenormal, 1e10F), 0); }).join();
  });
  EXPECT_NE(times(kDenormal, 1e10F), 0) << "another thread keeps its setting";
}

TEST(DenormalsTest, EveryInstructionSetFlushesAlike) {
  with_flushed_denormals([] {
    for (const KernelTable& table : supported_kernels()) {
      std::vector<float> x(37, kDenormal);
      std::vector<float> y(37, 1e-39F);
      table.add_in_place(37, x.data(), y.data());
      for (const float value : y) EXPECT_EQ(value, 0) << table.isa;
    }
  });
}

TEST(DenormalsTest, MatrixProductsFlushToo) {
  with_flushed_denormals([] {
    const std::vector<float> a(64, kDenormal);
    const std::vector<float> b(64, 1e10F);
    std::vector<float> c(64, 1);
    gemm({.m = 8, .n = 8, .k = 8}, {a.data(), 8}, {b.data(), 8}, 0, c.data(), 8);
    for (const float value : c) EXPECT_EQ(value, 0);
  });
}

}  // namespace
}  // namespace lockstep::runtime
