// Stochastic gradient descent: one moment per weight with momentum, none without.
#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

namespace lockstep::runtime {

// torch.optim.SGD without dampening. The momentum of a step starts from 0, which is what torch's
// first step does by copying the gradient.
std::unique_ptr<Optimizer> make_sgd_optimizer(const common::OptimizerConfig& config,
                                              DecayRanges ranges);

}  // namespace lockstep::runtime
