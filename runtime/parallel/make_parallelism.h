// The one choice point between data-parallel strategies.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/common/train_config.h"
#include "runtime/parallel/parallelism.h"

namespace lockstep::runtime {

struct ParallelismOptions {
  common::ParallelismConfig config;  // strategy is not kAuto: see common::choose_strategy()
  std::vector<int64_t> unit_elems;   // parameters of each unit, in model order
  std::vector<bool> frozen;          // [unit]: its weights never change; empty = none
  int64_t num_micro_batches = 1;     // of a global batch; world_size divides it
  int num_moments = 2;               // of the optimizer
  DType dtype = DType::kFp32;        // of the computation, as unshard() gives it
};

// `collective` must outlive the result; nobody else may issue operations on it between the first
// unshard() or gradient_ready() of a step and its finish_backward().
// Weights, gradients and moments start as zeros. Every rank must call it: groups of ranks meet
// here. Throws std::invalid_argument if the ranks do not divide the micro-batches, the shard ranks
// not the ranks, or the configuration contradicts itself; what Collective::split() throws.
std::unique_ptr<Parallelism> make_parallelism(const ParallelismOptions& options,
                                              Collective& collective);

}  // namespace lockstep::runtime
