// State of a device's memory as who fills, saves and exports it sees it: in the host's.
#pragma once

#include <span>

#include "runtime/parallel/parallelism.h"

namespace lockstep::runtime {

// Calls `use` with parts of `shards` as copies in the host's memory, in order; each begins at a
// norm chunk. What `use` fills goes back to the device. Gradients are left out: only the optimizer
// reads them, on the device. Throws what `use` throws.
//   access: any but kUpdate.
void visit_on_host(std::span<const ParamShard> shards, StateAccess access, const UseShard& use);

}  // namespace lockstep::runtime
