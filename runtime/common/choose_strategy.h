// `strategy: auto` decided by arithmetic, with its reason in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/common/estimate_memory.h"
#include "runtime/common/train_config.h"

namespace lockstep::common {

// Bytes that a rank of `train` sends per step, norms and losses aside: each rank sends what the
// others add up, once per step or per micro-step, and its part of what is gathered.
int64_t strategy_traffic_bytes(Strategy strategy, const TrainConfig& train, int64_t ranks);

struct StrategyChoice {
  Strategy strategy = Strategy::kDdp;  // never kAuto
  std::string reason;                  // one sentence with the numbers
  bool fits = true;                    // false: `auto` found nothing that a rank's memory can hold
};

// What the job names; zero3 if it only names shardRanks. Else, of the strategies whose
// estimate_memory() leaves a tenth of a rank's memory free (the estimate's own tolerance), the one
// with the least traffic, and of equals the one that needs least memory. If none does, zero3 with a
// reason that names the rank count that would, or that only tensor or pipeline parallelism would.
//   available_bytes: memory of one rank, or of its GPU; 0 = unknown: everything fits.
StrategyChoice choose_strategy(const TrainConfig& train, int64_t ranks, int64_t available_bytes,
                               RankDevice device = RankDevice::kProcessor);

std::string_view to_string(Strategy strategy);  // "auto", "ddp", "zero1", "zero2", "zero3"
std::optional<Strategy> strategy_named(std::string_view name);

}  // namespace lockstep::common
