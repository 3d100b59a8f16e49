#include "runtime/optim/global_norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(GlobalNormTest, ClipsAsTorch) {
  const std::vector<double> sums = {9.0, 16.0};
  const GradientNorm norm = gradient_norm(sums, 1.0);
  EXPECT_EQ(norm.norm, 5.0);
  EXPECT_EQ(norm.gradient_scale, static_cast<float>(1.0 / (5.0 + 1e-6)));
  EXPECT_TRUE(norm.finite);
  EXPECT_EQ(gradient_norm(sums, 10.0).gradient_scale, 1.0F);
  EXPECT_EQ(gradient_norm(sums, 0.0).gradient_scale, 1.0F);
  EXPECT_EQ(gradient_norm({}, 1.0).norm, 0.0);
}

TEST(GlobalNormTest, TakesTheScaleOfTheLossOffNormAndGradient) {
  const std::vector<double> sums = {9.0, 16.0};
  const GradientNorm scaled = gradient_norm(sums, 1.0, 2.0);
  EXPECT_EQ(scaled.norm, 2.5);
  EXPECT_EQ(scaled.gradient_scale, static_cast<float>(1.0 / (2.5 + 1e-6) / 2));
  EXPECT_EQ(gradient_norm(sums, 0.0, 2.0).gradient_scale, 0.5F);
}

TEST(GlobalNormTest, DetectsWhatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const GradientNorm norm = gradient_norm(std::vector<double>{1.0, bad}, 1.0);
    EXPECT_FALSE(norm.finite);
    EXPECT_EQ(norm.gradient_scale, 1.0F);
  }
}

}  // namespace
}  // namespace lockstep::runtime
