// Data parallelism, replicated or sharded. The strategies are one composition: storage as a
// Sharding has it, a WeightSource, a GradientReducer and, where several ranks keep a sum, a
// SliceSpreader.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/offload/swap_file.h"
#include "runtime/parallel/parallelism.h"
#include "runtime/parallel/reduction_tree.h"
#include "runtime/parallel/state_swapper.h"
#include "runtime/parallel/unit_storage.h"
#include "runtime/parallel/wire.h"

namespace lockstep::runtime {

struct DataParallelOptions {
  Sharding sharding;
  std::vector<int64_t> unit_elems;
  std::vector<bool> frozen;  // [unit]; empty = none
  int64_t num_base = 0;      // the first units, see Note [Base units]
  int64_t num_micro_batches = 1;
  int num_moments = 2;      // of the optimizer
  int64_t shard_ranks = 1;  // ranks of a group, see Note [Groups of ranks]; divides the world size
  SumOrder order = SumOrder::kTree;
  common::DType dtype = common::DType::kFp32;  // of the computation, see Note [Compute copies]
  common::DType wire = common::DType::kFp32;
  int64_t bucket_bytes = 0;
  int64_t prefetch_units = 1;
  int64_t swap_piece_elems = StateSwapper::kPieceElems;  // of offloaded state
};

// Bytes of a swap file for the optimizer's state of a rank.
int64_t offloaded_bytes(const DataParallelOptions& options, int rank, int world_size);

// With whole gradients, micro-batches are contiguous per rank, partial sums are kept until the
// step's last backward, and there is one exchange per bucket and step. With sharded gradients and a
// power of two of ranks (any number in running order), micro-batches are interleaved and every
// micro-step's gradient goes to the slices at once, so that no whole gradient is kept; other counts
// are contiguous. See Note [The tree] in reduction_tree.h.
//   swap_file: of offloaded_bytes(), for what the optimizer alone needs; null: that is in memory.
// Blocks for the meeting of groups if shard_ranks is not the world size. `world` must outlive the
// result.
// Throws std::invalid_argument if the ranks do not divide the micro-batches, or shard_ranks the
// ranks; what Collective::split() throws.
// Source: ZeRO, arXiv:1910.02054.
std::unique_ptr<Parallelism> make_data_parallel(const DataParallelOptions& options,
                                                Collective& world,
                                                std::unique_ptr<SwapFile> swap_file = nullptr);

}  // namespace lockstep::runtime
