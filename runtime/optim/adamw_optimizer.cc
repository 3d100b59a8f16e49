#include "runtime/optim/adamw_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

AdamWOptimizer::AdamWOptimizer(const common::OptimizerConfig& config,
                               std::vector<std::vector<DecayRange>> ranges)
    : config_(config), ranges_(std::move(ranges)) {}

void AdamWOptimizer::step(const AdamWArguments& arguments,
                          std::span<const ParamShard> shards) const {
  const auto t = static_cast<double>(arguments.step);
  AdamWStep kernel_step = {.lr = arguments.lr,
                           .beta1 = config_.beta1,
                           .beta2 = config_.beta2,
                           .eps = config_.eps,
                           .bias_correction1 = 1.0 - std::pow(config_.beta1, t),
                           .bias_correction2 = 1.0 - std::pow(config_.beta2, t),
                           .gradient_scale = arguments.gradient_scale};
  for (const ParamShard& shard : shards) {
    const auto shard_end = shard.begin_elem + static_cast<int64_t>(shard.weights.size());
    for (const DecayRange& range : ranges_[static_cast<size_t>(shard.unit)]) {
      const int64_t begin = std::max(range.begin_elem, shard.begin_elem);
      const int64_t end = std::min(range.end_elem, shard_end);
      if (begin >= end) continue;
      const int64_t offset = begin - shard.begin_elem;
      kernel_step.weight_decay = range.decays ? config_.weight_decay : 0.0;
      adamw(kernel_step, end - begin, shard.gradient.data() + offset, shard.weights.data() + offset,
            shard.moment1.data() + offset, shard.moment2.data() + offset);
    }
  }
}

}  // namespace lockstep::runtime
