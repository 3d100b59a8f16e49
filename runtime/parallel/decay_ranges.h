// Which elements of a model decay: the table of units in the optimizer's terms.
#pragma once

#include <span>
#include <vector>

#include "runtime/model/unit.h"
#include "runtime/optim/decay_range.h"

namespace lockstep::runtime {

// One range per tensor. With matrices_only, tensors of fewer than two dimensions do not decay.
DecayRanges decay_ranges(std::span<const Unit> units, bool matrices_only);

}  // namespace lockstep::runtime
