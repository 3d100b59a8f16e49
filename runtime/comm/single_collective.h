// The Collective of a world of one rank: every operation is a copy, done when it is issued.
#pragma once

#include <memory>

#include "runtime/comm/collective.h"

namespace lockstep::runtime {

std::unique_ptr<Collective> make_single_collective();

}  // namespace lockstep::runtime
