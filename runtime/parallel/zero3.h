// Every rank holds one slice of each unit's weights, gradient and moments; full weights exist only
// while a unit computes. Source: ZeRO, arXiv:1910.02054, stage 3.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/parallel/parallelism.h"

namespace lockstep::runtime {

// shards() and owned() are the same slices. With a power of two of ranks, micro-batches are
// interleaved and every micro-step's gradient goes to the slices at once; with other counts they
// are contiguous and partial sums of full units are kept until the step's last backward.
// `collective` must outlive the result.
// Throws std::invalid_argument if the ranks do not divide the micro-batches.
std::unique_ptr<Parallelism> make_zero3(const std::vector<int64_t>& unit_elems,
                                        int64_t num_micro_batches, Collective& collective);

}  // namespace lockstep::runtime
