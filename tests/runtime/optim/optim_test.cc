#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/kernels/elementwise.h"
#include "runtime/optim/adamw_optimizer.h"
#include "runtime/optim/global_norm.h"

namespace lockstep::runtime {
namespace {

TEST(GlobalNormTest, ClipsAsTorch) {
  const std::vector<double> sums = {9.0, 16.0};
  const GradientNorm norm = gradient_norm(sums, 1.0);
  EXPECT_EQ(norm.norm, 5.0);
  EXPECT_EQ(norm.clip_scale, static_cast<float>(1.0 / (5.0 + 1e-6)));
  EXPECT_TRUE(norm.finite);
  EXPECT_EQ(gradient_norm(sums, 10.0).clip_scale, 1.0F);
  EXPECT_EQ(gradient_norm(sums, 0.0).clip_scale, 1.0F);
  EXPECT_EQ(gradient_norm({}, 1.0).norm, 0.0);
}

TEST(GlobalNormTest, DetectsWhatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const GradientNorm norm = gradient_norm(std::vector<double>{1.0, bad}, 1.0);
    EXPECT_FALSE(norm.finite);
    EXPECT_EQ(norm.clip_scale, 1.0F);
  }
}

// A unit's state in vectors, viewed as shards.
struct State {
  explicit State(size_t elems) : weights(elems), gradient(elems), moment1(elems), moment2(elems) {
    for (size_t i = 0; i < elems; ++i) {
      weights[i] = std::sin(static_cast<float>(i));
      gradient[i] = std::cos(static_cast<float>(3 * i));
    }
  }
  ParamShard shard(size_t begin, size_t end) {
    const auto cut = [&](std::vector<float>& values) {
      return std::span(values).subspan(begin, end - begin);
    };
    return {0,           static_cast<int64_t>(begin), cut(weights), cut(gradient), cut(moment1),
            cut(moment2)};
  }
  std::vector<float> weights, gradient, moment1, moment2;
};

const std::vector<std::vector<DecayRange>> kRanges = {
    {{0, 700, true}, {700, 777, false}, {777, 5000, true}}};

TEST(AdamWOptimizerTest, BitsDoNotDependOnSlicing) {
  const AdamWOptimizer optimizer({}, kRanges);
  State whole(5000);
  State sliced(5000);
  for (int64_t step = 1; step <= 3; ++step) {
    const AdamWArguments arguments = {.step = step, .lr = 1e-3, .gradient_scale = 0.7F};
    optimizer.step(arguments, std::vector<ParamShard>{whole.shard(0, 5000)});
    optimizer.step(arguments,
                   std::vector<ParamShard>{sliced.shard(0, 1024), sliced.shard(1024, 4096),
                                           sliced.shard(4096, 5000), sliced.shard(5000, 5000)});
  }
  EXPECT_EQ(whole.weights, sliced.weights);
  EXPECT_EQ(whole.moment1, sliced.moment1);
  EXPECT_EQ(whole.moment2, sliced.moment2);
}

// Against the formula of torch.optim.AdamW in double: 1e-6 relative to weights of size 1 is the
// rounding of fp32 over three steps.
TEST(AdamWOptimizerTest, FollowsTheFormulaAndDecaysOnlyWhereAsked) {
  const common::OptimizerConfig config;
  const AdamWOptimizer optimizer(config, kRanges);
  State state(1000);
  std::vector<double> w(state.weights.begin(), state.weights.end());
  std::vector<double> m(1000);
  std::vector<double> v(1000);
  for (int64_t step = 1; step <= 3; ++step) {
    optimizer.step({.step = step, .lr = 1e-2, .gradient_scale = 0.5F},
                   std::vector<ParamShard>{state.shard(0, 1000)});
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = 0.5 * static_cast<double>(state.gradient[i]);
      const bool decays = i < 700 || i >= 777;
      if (decays) w[i] -= 1e-2 * config.weight_decay * w[i];
      m[i] = config.beta1 * m[i] + (1 - config.beta1) * g;
      v[i] = config.beta2 * v[i] + (1 - config.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(config.beta1, step));
      const double v_hat = v[i] / (1 - std::pow(config.beta2, step));
      w[i] -= 1e-2 * m_hat / (std::sqrt(v_hat) + config.eps);
    }
  }
  for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(state.weights[i], w[i], 1e-6) << i;
}

}  // namespace
}  // namespace lockstep::runtime
