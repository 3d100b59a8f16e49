// Adam and AdamW: two moments per weight.
#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

namespace lockstep::runtime {

// AdamW shrinks weights by lr * weight_decay (torch.optim.AdamW); Adam adds weight_decay times the
// weight to the gradient (torch.optim.Adam), so that the decay passes through the moments.
// Sources: arXiv:1412.6980, arXiv:1711.05101.
std::unique_ptr<Optimizer> make_adam_optimizer(const common::OptimizerConfig& config,
                                               DecayRanges ranges);

}  // namespace lockstep::runtime
