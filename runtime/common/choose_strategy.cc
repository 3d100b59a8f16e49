#include "runtime/common/choose_strategy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

namespace lockstep::common {
namespace {

constexpr int64_t kFp32Bytes = 4;
constexpr int64_t kMostRanks = 4096;
constexpr std::array kStrategies = {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2,
                                    Strategy::kZero3};

std::string bytes_text(int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1024.0 * 1024.0);
  char text[64];
  if (mebibytes < 1024) {
    std::snprintf(text, sizeof(text), "%.1f MiB", mebibytes);
  } else {
    std::snprintf(text, sizeof(text), "%.1f GiB", mebibytes / 1024);
  }
  return text;
}

// Partial sums that the tree keeps from one micro-batch to the next, besides the oldest.
int64_t extra_partial_sums(const ParallelismConfig& config, int64_t micro_batches) {
  if (config.reduction == Reduction::kFast || micro_batches < 2) return 0;
  return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(micro_batches - 1))) - 1;
}

// Whether sharded gradients leave for their slices after every micro-step.
bool reduces_at_once(const ParallelismConfig& config, int64_t ranks) {
  return config.reduction == Reduction::kFast || std::has_single_bit(static_cast<uint64_t>(ranks));
}

// The smallest count of ranks from `facts.ranks` on whose zero3 fits in `budget`; 0 if none does.
int64_t ranks_that_fit(const ParallelismConfig& config, StrategyFacts facts, int64_t budget) {
  const int64_t samples = facts.ranks * facts.micro_batches_per_rank;
  for (; facts.ranks <= std::min(samples, kMostRanks); ++facts.ranks) {
    if (samples % facts.ranks != 0) continue;
    facts.micro_batches_per_rank = samples / facts.ranks;
    if (strategy_cost(Strategy::kZero3, config, facts).memory_bytes() <= budget) return facts.ranks;
  }
  return 0;
}

std::string describe(Strategy strategy, const StrategyCost& cost) {
  return std::string(to_string(strategy))
      .append(" ")
      .append(bytes_text(cost.memory_bytes()))
      .append(", sends ")
      .append(bytes_text(cost.traffic_bytes))
      .append(" a step");
}

// What to do when no strategy fits.
StrategyChoice nothing_fits(const ParallelismConfig& config, const StrategyFacts& facts,
                            int64_t budget) {
  const StrategyCost cost = strategy_cost(Strategy::kZero3, config, facts);
  std::string reason = "zero3: no strategy fits in half of a rank's memory (";
  reason.append(bytes_text(budget)).append("): ").append(describe(Strategy::kZero3, cost));
  const int64_t ranks = ranks_that_fit(config, facts, budget);
  if (ranks > 0) {
    reason.append("; it would fit with ").append(std::to_string(ranks)).append(" ranks");
  } else {
    reason.append(
        "; it would with no number of ranks that divides the micro-batches: give each rank more "
        "memory, as only tensor or pipeline parallelism, which this version has not, would need "
        "less");
  }
  return {Strategy::kZero3, reason, cost.memory_bytes() <= facts.available_memory_bytes};
}

}  // namespace

StrategyCost strategy_cost(Strategy strategy, const ParallelismConfig& config,
                           const StrategyFacts& facts) {
  const int64_t whole = facts.num_parameters * kFp32Bytes;
  const int64_t unit = facts.largest_unit * kFp32Bytes;
  const int64_t d = config.shard_ranks > 0 ? config.shard_ranks : facts.ranks;
  const int64_t slice = (whole + d - 1) / d;
  const int64_t micro_batches = facts.micro_batches_per_rank;
  const bool at_once = strategy >= Strategy::kZero2 && reduces_at_once(config, facts.ranks);
  const int64_t weights = strategy == Strategy::kZero3 ? slice : whole;
  const int64_t moments = 2 * (strategy == Strategy::kDdp ? whole : slice);
  // Sums of whole gradients lie where the final gradient does, if that is whole.
  int64_t gradients = strategy >= Strategy::kZero2 ? slice : whole;
  if (strategy >= Strategy::kZero2 && !at_once && micro_batches > 1) gradients += whole;
  gradients += extra_partial_sums(config, micro_batches) * (at_once ? slice : whole);

  // One gradient being written, two exchanges of what is sent and received.
  int64_t buffers = unit + 4 * std::min(unit, config.bucket_bytes);
  if (strategy == Strategy::kZero3) buffers += (1 + config.prefetch_units) * unit;

  const int64_t reductions = at_once ? micro_batches : 1;
  const int64_t gathers = strategy == Strategy::kZero3 ? 2 * micro_batches : 1;
  const int64_t to_replicas = slice - slice / (facts.ranks / d);  // under shardRanks
  return {.state_bytes = weights + gradients + moments,
          .buffer_bytes = buffers,
          .traffic_bytes = reductions * (whole - whole / facts.ranks) +
                           gathers * (whole - whole / d) + to_replicas};
}

StrategyChoice choose_strategy(const ParallelismConfig& config, const StrategyFacts& facts) {
  if (config.strategy != Strategy::kAuto) {
    return {config.strategy, std::string(to_string(config.strategy)) + ": as the job asks"};
  }
  if (config.shard_ranks > 0) return {Strategy::kZero3, "zero3: as shardRanks asks"};
  if (facts.ranks == 1) {
    return {Strategy::kDdp,
            "ddp: one rank has nobody to share " +
                bytes_text(strategy_cost(Strategy::kDdp, config, facts).state_bytes) +
                " of model state with"};
  }
  const bool known = facts.available_memory_bytes > 0;
  const int64_t budget = facts.available_memory_bytes / 2;
  std::optional<Strategy> best;
  std::string costs;
  for (const Strategy strategy : kStrategies) {
    const StrategyCost cost = strategy_cost(strategy, config, facts);
    costs.append(costs.empty() ? "" : "; ").append(describe(strategy, cost));
    if (known && cost.memory_bytes() > budget) continue;
    if (best) {
      const StrategyCost least = strategy_cost(*best, config, facts);
      const bool is_better =
          cost.traffic_bytes < least.traffic_bytes ||
          (cost.traffic_bytes == least.traffic_bytes && cost.memory_bytes() < least.memory_bytes());
      if (!is_better) continue;
    }
    best = strategy;
  }
  if (!best) return nothing_fits(config, facts, budget);
  std::string reason(to_string(*best));
  reason.append(": least traffic, then least memory, of what fits in ")
      .append(known ? "half of a rank's memory (" + bytes_text(budget) + ")"
                    : "a memory of unknown size")
      .append(": ")
      .append(costs);
  return {*best, reason};
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
