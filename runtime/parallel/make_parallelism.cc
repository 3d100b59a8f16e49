#include "runtime/parallel/make_parallelism.h"

#include <stdexcept>
#include <utility>

#include "runtime/parallel/data_parallel.h"

namespace lockstep::runtime {
namespace {

Sharding sharding_of(common::Strategy strategy) {
  switch (strategy) {
    case common::Strategy::kDdp:
      return {};
    case common::Strategy::kZero1:
      return {.moments = true};
    case common::Strategy::kZero2:
      return {.moments = true, .gradients = true};
    case common::Strategy::kZero3:
      return {.moments = true, .gradients = true, .weights = true};
    case common::Strategy::kAuto:
      break;
  }
  throw std::invalid_argument("the strategy must be chosen first: common::choose_strategy()");
}

DataParallelOptions data_parallel_options(const ParallelismOptions& options, int world_size) {
  const common::ParallelismConfig& config = options.config;
  const bool fast = config.reduction == common::Reduction::kFast;
  if (config.reduce_dtype != common::DType::kFp32 && !fast) {
    throw std::invalid_argument("reduceDtype bf16 needs reduction fast");
  }
  if (config.shard_ranks != 0 && config.strategy != common::Strategy::kZero3) {
    throw std::invalid_argument("shardRanks needs strategy zero3");
  }
  return {.sharding = sharding_of(config.strategy),
          .unit_elems = options.unit_elems,
          .frozen = options.frozen,
          .num_base = options.num_base,
          .num_micro_batches = options.num_micro_batches,
          .num_moments = options.num_moments,
          .shard_ranks = config.shard_ranks == 0 ? world_size : config.shard_ranks,
          .order = fast ? SumOrder::kRunning : SumOrder::kTree,
          .dtype = options.dtype,
          .wire = config.reduce_dtype,
          .bucket_bytes = config.bucket_bytes,
          .prefetch_units = config.prefetch_units,
          .swap_piece_elems = options.swap_piece_elems};
}

}  // namespace

int64_t offloaded_bytes(const ParallelismOptions& options, int rank, int world_size) {
  return offloaded_bytes(data_parallel_options(options, world_size), rank, world_size);
}

std::unique_ptr<Parallelism> make_parallelism(const ParallelismOptions& options,
                                              Collective& collective,
                                              std::unique_ptr<SwapFile> swap_file) {
  return make_data_parallel(data_parallel_options(options, collective.world_size()), collective,
                            std::move(swap_file));
}

}  // namespace lockstep::runtime
