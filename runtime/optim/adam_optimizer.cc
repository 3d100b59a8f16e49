#include "runtime/optim/adam_optimizer.h"

#include <cmath>
#include <utility>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(const common::OptimizerConfig& config, DecayRanges ranges)
      : config_(config),
        ranges_(std::move(ranges)),
        kernel_(config.kind == common::OptimizerConfig::Kind::kAdamW ? &adamw : &adam) {}

  void step(const OptimizerStep& step, std::span<const ParamShard> shards) const override {
    const auto t = static_cast<double>(step.step);
    AdamStep kernel_step = {.lr = step.lr,
                            .beta1 = config_.beta1,
                            .beta2 = config_.beta2,
                            .eps = config_.eps,
                            .bias_correction1 = 1.0 - std::pow(config_.beta1, t),
                            .bias_correction2 = 1.0 - std::pow(config_.beta2, t),
                            .gradient_scale = step.gradient_scale};
    for (const ParamShard& shard : shards) {
      for_each_decay_range(ranges_, shard, [&](int64_t offset, int64_t num_elems, bool decays) {
        kernel_step.weight_decay = decays ? config_.weight_decay : 0.0;
        kernel_(kernel_step, num_elems, shard.gradient.data() + offset,
                shard.weights.data() + offset, shard.moment1.data() + offset,
                shard.moment2.data() + offset);
      });
    }
  }

 private:
  common::OptimizerConfig config_;
  DecayRanges ranges_;
  decltype(&adamw) kernel_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam_optimizer(const common::OptimizerConfig& config,
                                               DecayRanges ranges) {
  return std::make_unique<AdamOptimizer>(config, std::move(ranges));
}

}  // namespace lockstep::runtime
