#include "runtime/optim/sgd_optimizer.h"

#include <utility>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(const common::OptimizerConfig& config, DecayRanges ranges)
      : config_(config), ranges_(std::move(ranges)) {}

  void step(const OptimizerStep& step, std::span<const ParamShard> shards) const override {
    SgdStep kernel_step = {.lr = step.lr,
                           .momentum = config_.momentum,
                           .nesterov = config_.nesterov,
                           .gradient_scale = step.gradient_scale};
    for (const ParamShard& shard : shards) {
      for_each_decay_range(ranges_, shard, [&](int64_t offset, int64_t num_elems, bool decays) {
        kernel_step.weight_decay = decays ? config_.weight_decay : 0.0;
        float* const momentum = config_.momentum > 0 ? shard.moment1.data() + offset : nullptr;
        sgd(kernel_step, num_elems, shard.gradient.data() + offset, shard.weights.data() + offset,
            momentum);
      });
    }
  }

 private:
  common::OptimizerConfig config_;
  DecayRanges ranges_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd_optimizer(const common::OptimizerConfig& config,
                                              DecayRanges ranges) {
  return std::make_unique<SgdOptimizer>(config, std::move(ranges));
}

}  // namespace lockstep::runtime
