// Which elements of a model decay: the table of units in the optimizer's terms.
#pragma once

#include <span>
#include <vector>

#include "runtime/model/unit.h"
#include "runtime/optim/adamw_optimizer.h"

namespace lockstep::runtime {

// One range per tensor. With matrices_only, tensors of fewer than two dimensions do not decay.
std::vector<std::vector<DecayRange>> decay_ranges(std::span<const Unit> units, bool matrices_only);

}  // namespace lockstep::runtime
