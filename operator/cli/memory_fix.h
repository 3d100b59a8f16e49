// What to change in a job whose ranks do not fit their memory. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/cli/rank_memory.h"
#include "runtime/common/train_config.h"

namespace lockstep::cli {

struct MemoryFix {
  std::vector<std::string> changes;  // "microBatchSize 4 -> 2"
  std::vector<std::string> sets;     // values of --set: "train.parallelism.strategy=zero3"
  int64_t total_bytes = 0;           // of a rank, then
};

// The cheapest change after which a rank of `train` under `strategy` fits memory.limit_bytes, in
// the order of docs/guides/strategies.md: another strategy, a smaller micro-batch with the same
// global batch, activation checkpointing, more ranks; of each kind the least, and then on top of
// zero3. Nothing if it fits as it is, if no limit is known, or if none of these is enough.
std::optional<MemoryFix> find_memory_fix(const common::TrainConfig& train,
                                         common::Strategy strategy, int64_t ranks,
                                         const RankMemory& memory);

}  // namespace lockstep::cli
