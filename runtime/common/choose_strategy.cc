#include "runtime/common/choose_strategy.h"

#include <cstdio>

namespace lockstep::common {
namespace {

std::string mebibytes(int64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
  return text;
}

}  // namespace

StrategyChoice choose_strategy(Strategy wanted, const StrategyFacts& facts) {
  if (wanted != Strategy::kAuto) {
    return {wanted, std::string(to_string(wanted)) + ": as the job asks"};
  }
  const int64_t state_bytes = facts.num_parameters * kModelStateBytesPerParameter;
  const std::string state = mebibytes(state_bytes) + " of model state (" +
                            std::to_string(kModelStateBytesPerParameter) + " bytes x " +
                            std::to_string(facts.num_parameters) + " parameters)";
  if (facts.ranks == 1) {
    return {Strategy::kDdp, "ddp: one rank has nobody to share " + state + " with"};
  }
  if (facts.available_memory_bytes == 0) {
    return {Strategy::kDdp, "ddp: the memory of a rank is unknown; " + state + " per rank"};
  }
  const int64_t budget = facts.available_memory_bytes / 2;
  const std::string half = "half of a rank's memory (" + mebibytes(budget) + ")";
  if (state_bytes <= budget) return {Strategy::kDdp, "ddp: " + state + " fits in " + half};
  return {Strategy::kZero3, "zero3: " + state + " does not fit in " + half + "; shared by " +
                                std::to_string(facts.ranks) + " ranks it is " +
                                mebibytes(state_bytes / facts.ranks) + " each"};
}

std::string_view to_string(Strategy strategy) {
  switch (strategy) {
    case Strategy::kAuto:
      return "auto";
    case Strategy::kDdp:
      return "ddp";
    case Strategy::kZero1:
      return "zero1";
    case Strategy::kZero2:
      return "zero2";
    case Strategy::kZero3:
      return "zero3";
  }
  return "auto";
}

std::optional<Strategy> strategy_named(std::string_view name) {
  for (const Strategy strategy :
       {Strategy::kAuto, Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    if (name == to_string(strategy)) return strategy;
  }
  return std::nullopt;
}

}  // namespace lockstep::common
