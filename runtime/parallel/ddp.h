// Replicated parameters and optimizer state; gradients are summed over ranks and gathered back.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/parallel/parallelism.h"

namespace lockstep::runtime {

// shards(): whole units. Micro-batches are contiguous per rank. `collective` must outlive the
// result. Throws std::invalid_argument if the ranks do not divide the micro-batches.
std::unique_ptr<Parallelism> make_ddp(const std::vector<int64_t>& unit_elems,
                                      int64_t num_micro_batches, Collective& collective);

}  // namespace lockstep::runtime
