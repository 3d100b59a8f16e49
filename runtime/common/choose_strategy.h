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
  int64_t ranks = 1;
  int64_t available_memory_bytes = 0;  // of one rank; 0 = unknown
};

struct StrategyChoice {
  Strategy strategy = Strategy::kDdp;  // never kAuto
  std::string reason;                  // one sentence with the numbers
};

// Bytes of fp32 weights, gradient and two moments per parameter.
inline constexpr int64_t kModelStateBytesPerParameter = 16;

// `wanted` unless it is kAuto; then ddp if the replicated model state fits in half of a rank's
// memory (the other half is for activations and partial sums) or memory is unknown, else zero3.
StrategyChoice choose_strategy(Strategy wanted, const StrategyFacts& facts);

std::string_view to_string(Strategy strategy);  // "auto", "ddp", "zero1", "zero2", "zero3"
std::optional<Strategy> strategy_named(std::string_view name);

}  // namespace lockstep::common
