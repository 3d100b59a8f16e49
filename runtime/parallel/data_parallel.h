// Data parallelism, replicated or sharded. The strategies are one composition: storage as a
// Sharding has it, a WeightSource and a GradientReducer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/parallel/parallelism.h"
#include "runtime/parallel/unit_storage.h"

namespace lockstep::runtime {

// With whole gradients, micro-batches are contiguous per rank, partial sums are kept until the
// step's last backward, and there is one exchange per unit and step. With sharded gradients and a
// power of two of ranks, micro-batches are interleaved and every micro-step's gradient goes to the
// slices at once, so that no whole gradient is kept; other counts are contiguous.
// See Note [The tree] in reduction_tree.h.
// `collective` must outlive the result.
// Throws std::invalid_argument if the ranks do not divide the micro-batches.
// Source: ZeRO, arXiv:1910.02054.
std::unique_ptr<Parallelism> make_data_parallel(const Sharding& sharding,
                                                const std::vector<int64_t>& unit_elems,
                                                int64_t num_micro_batches, Collective& collective);

}  // namespace lockstep::runtime
