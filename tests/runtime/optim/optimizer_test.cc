#include "runtime/optim/optimizer.h"

#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using common::OptimizerConfig;
using Kind = OptimizerConfig::Kind;

// A unit's state in vectors, viewed as shards. Moments that `config` has not are empty.
struct State {
  State(size_t elems, const OptimizerConfig& config)
      : weights(elems),
        gradient(elems),
        moment1(num_moments(config) >= 1 ? elems : 0),
        moment2(num_moments(config) >= 2 ? elems : 0) {
    for (size_t i = 0; i < elems; ++i) {
      weights[i] = std::sin(static_cast<float>(i));
      gradient[i] = std::cos(static_cast<float>(3 * i));
    }
  }
  ParamShard shard(size_t begin, size_t end) {
    const auto cut = [&](std::vector<float>& values) {
      return values.empty() ? std::span<float>() : std::span(values).subspan(begin, end - begin);
    };
    return {0,           static_cast<int64_t>(begin), cut(weights), cut(gradient), cut(moment1),
            cut(moment2)};
  }
  std::vector<float> weights, gradient, moment1, moment2;
};

const DecayRanges kRanges = {{{0, 700, true}, {700, 777, false}, {777, 5000, true}}};

const std::vector<OptimizerConfig>& all_optimizers() {
  static const std::vector<OptimizerConfig> configs = {
      {.kind = Kind::kAdamW},
      {.kind = Kind::kAdam},
      {.kind = Kind::kSgd},
      {.kind = Kind::kSgd, .momentum = 0.9},
      {.kind = Kind::kSgd, .momentum = 0.9, .nesterov = true},
  };
  return configs;
}

TEST(OptimizerTest, BitsDoNotDependOnSlicing) {
  for (const OptimizerConfig& config : all_optimizers()) {
    const auto optimizer = make_optimizer(config, kRanges);
    State whole(5000, config);
    State sliced(5000, config);
    const std::vector<float> before = whole.weights;
    for (int64_t step = 1; step <= 3; ++step) {
      const OptimizerStep arguments = {.step = step, .lr = 1e-3, .gradient_scale = 0.7F};
      optimizer->step(arguments, std::vector<ParamShard>{whole.shard(0, 5000)});
      optimizer->step(arguments,
                      std::vector<ParamShard>{sliced.shard(0, 1024), sliced.shard(1024, 4096),
                                              sliced.shard(4096, 5000), sliced.shard(5000, 5000)});
    }
    EXPECT_NE(whole.weights, before);
    EXPECT_EQ(whole.weights, sliced.weights);
    EXPECT_EQ(whole.moment1, sliced.moment1);
    EXPECT_EQ(whole.moment2, sliced.moment2);
  }
}

TEST(OptimizerTest, SgdKeepsNoMoreThanItNeeds) {
  std::vector<int> moments;
  for (const OptimizerConfig& config : all_optimizers()) moments.push_back(num_moments(config));
  EXPECT_EQ(moments, (std::vector<int>{2, 2, 0, 1, 1}));
}

// One element of the reference, in double.
struct Element {
  double w = 0, m = 0, v = 0;
};
using Update = std::function<void(Element& x, double g, double decay, int step)>;

// Three steps against `update`, with decay where kRanges says. 1e-6: the rounding of fp32 over
// three steps of weights of size 1.
void expect_follows(const OptimizerConfig& config, const Update& update) {
  const auto optimizer = make_optimizer(config, kRanges);
  State state(1000, config);
  std::vector<Element> reference(1000);
  for (size_t i = 0; i < reference.size(); ++i) reference[i].w = state.weights[i];
  for (int step = 1; step <= 3; ++step) {
    optimizer->step({.step = step, .lr = 1e-2, .gradient_scale = 0.5F},
                    std::vector<ParamShard>{state.shard(0, 1000)});
    for (size_t i = 0; i < reference.size(); ++i) {
      const bool decays = i < 700 || i >= 777;
      update(reference[i], 0.5 * static_cast<double>(state.gradient[i]),
             decays ? config.weight_decay : 0.0, step);
    }
  }
  for (size_t i = 0; i < reference.size(); ++i) {
    EXPECT_NEAR(state.weights[i], reference[i].w, 1e-6) << i;
  }
}

void update_adam(Element& x, double g, int step) {
  const OptimizerConfig config;
  x.m = config.beta1 * x.m + (1 - config.beta1) * g;
  x.v = config.beta2 * x.v + (1 - config.beta2) * g * g;
  const double m_hat = x.m / (1 - std::pow(config.beta1, step));
  const double v_hat = x.v / (1 - std::pow(config.beta2, step));
  x.w -= 1e-2 * m_hat / (std::sqrt(v_hat) + config.eps);
}

TEST(OptimizerTest, AdamWShrinksWeightsOnlyWhereAsked) {
  expect_follows({.kind = Kind::kAdamW}, [](Element& x, double g, double decay, int step) {
    x.w -= 1e-2 * decay * x.w;
    update_adam(x, g, step);
  });
}

TEST(OptimizerTest, AdamAddsDecayToTheGradientOnlyWhereAsked) {
  expect_follows({.kind = Kind::kAdam}, [](Element& x, double g, double decay, int step) {
    update_adam(x, g + decay * x.w, step);
  });
}

TEST(OptimizerTest, SgdFollowsTheGradientItsMomentumOrNesterovs) {
  expect_follows({.kind = Kind::kSgd},
                 [](Element& x, double g, double decay, int) { x.w -= 1e-2 * (g + decay * x.w); });
  for (const bool nesterov : {false, true}) {
    expect_follows({.kind = Kind::kSgd, .momentum = 0.9, .nesterov = nesterov},
                   [nesterov](Element& x, double g, double decay, int) {
                     g += decay * x.w;
                     x.m = 0.9 * x.m + g;
                     x.w -= 1e-2 * (nesterov ? g + 0.9 * x.m : x.m);
                   });
  }
}

}  // namespace
}  // namespace lockstep::runtime
