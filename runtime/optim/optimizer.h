// The one seam between a step's gradients and the weights. An element's bits do not depend on how
// the units are sliced.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/optim/decay_range.h"
#include "runtime/optim/param_shard.h"

namespace lockstep::runtime {

// What changes from step to step.
struct OptimizerStep {
  int64_t step = 1;  // counted from 1, for bias corrections
  double lr = 0;
  float gradient_scale = 1;  // clip factor
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates weights and moments of every shard in place from its gradient, which is only read. The
  // shards have as many moments as common::num_moments() tells.
  virtual void step(const OptimizerStep& step, std::span<const ParamShard> shards) const = 0;
};

// The one choice point between optimizers.
//   ranges: see DecayRanges.
std::unique_ptr<Optimizer> make_optimizer(const common::OptimizerConfig& config,
                                          DecayRanges ranges);

}  // namespace lockstep::runtime
