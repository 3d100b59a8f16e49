// The one choice point between data-parallel strategies.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/common/train_config.h"
#include "runtime/offload/swap_file.h"
#include "runtime/parallel/parallelism.h"
#include "runtime/parallel/state_swapper.h"

namespace lockstep::runtime {

struct ParallelismOptions {
  common::ParallelismConfig config;  // strategy is not kAuto: see common::choose_strategy()
  std::vector<int64_t> unit_elems;   // parameters of each unit, in model order
  std::vector<bool> frozen;          // [unit]: its weights never change; empty = none
  // The first units that are frozen and no state, see Note [Base units] in unit_storage.h; 0: none.
  // Of the units after them one is in use beside one of them: they are gathered into buffers of
  // their own, in their own order.
  int64_t num_base = 0;
  int64_t num_micro_batches = 1;  // of a global batch; world_size divides it
  int num_moments = 2;            // of the optimizer
  DType dtype = DType::kFp32;     // of the computation, as unshard() gives it
  int64_t swap_piece_elems = StateSwapper::kPieceElems;  // of offloaded state
};

// Bytes of what the optimizer alone needs of a rank: moments, and masters where the model computes
// with copies.
int64_t offloaded_bytes(const ParallelismOptions& options, int rank, int world_size);

// `collective` must outlive the result; nobody else may issue operations on it between the first
// unshard() or gradient_ready() of a step and its finish_backward().
//   swap_file: of offloaded_bytes(), takes what the optimizer alone needs; null: that is in memory.
// Weights, gradients and moments start as zeros, offloaded ones unspecified. Every rank must call
// it: groups of ranks meet here. Throws std::invalid_argument if the ranks do not divide the
// micro-batches, the shard ranks not the ranks, or the configuration contradicts itself; what
// Collective::split() throws.
std::unique_ptr<Parallelism> make_parallelism(const ParallelismOptions& options,
                                              Collective& collective,
                                              std::unique_ptr<SwapFile> swap_file = nullptr);

}  // namespace lockstep::runtime
