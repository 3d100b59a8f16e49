// `strategy: auto` decided by arithmetic, with its reason in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/common/train_config.h"

namespace lockstep::common {

struct StrategyFacts {
  int64_t num_parameters = 0;
  int64_t largest_unit = 0;  // parameters of the largest block, the least that must be whole
  int64_t ranks = 1;
  int64_t micro_batches_per_rank = 1;
  int64_t available_memory_bytes = 0;  // of one rank; 0 = unknown
};

// What one rank needs and moves under a strategy, in fp32.
struct StrategyCost {
  int64_t state_bytes = 0;    // weights, gradients, moments and the tree's partial sums
  int64_t buffer_bytes = 0;   // whole units gathered, and exchanges under way
  int64_t traffic_bytes = 0;  // sent per step
  int64_t memory_bytes() const { return state_bytes + buffer_bytes; }
};

// Source: ZeRO (arXiv:1910.02054) for the state: 16 bytes per parameter under ddp, 8 + 8/d under
// zero1, 4 + 12/d under zero2, 16/d under zero3, over d ranks (or config.shard_ranks). Traffic is
// that of runtime/parallel: each rank sends and receives what others add up, per step or per
// micro-step, and what is gathered.
StrategyCost strategy_cost(Strategy strategy, const ParallelismConfig& config,
                           const StrategyFacts& facts);

struct StrategyChoice {
  Strategy strategy = Strategy::kDdp;  // never kAuto
  std::string reason;                  // one sentence with the numbers
  bool fits = true;                    // false: not even `strategy` fits in a rank's memory
};

// config.strategy unless it is kAuto; zero3 if shard ranks are given. Else, of the strategies that
// fit in half of a rank's memory (the other half is for activations), the one with the least
// traffic, and of equals the one that needs least memory; all fit in unknown memory. If none fits,
// zero3 with a reason that says how many ranks would do, or that only tensor or pipeline
// parallelism would; `fits` is false if zero3's state is beyond all of a rank's memory.
StrategyChoice choose_strategy(const ParallelismConfig& config, const StrategyFacts& facts);

std::string_view to_string(Strategy strategy);  // "auto", "ddp", "zero1", "zero2", "zero3"
std::optional<Strategy> strategy_named(std::string_view name);

}  // namespace lockstep::common
