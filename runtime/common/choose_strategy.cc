#include "runtime/common/choose_strategy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <numeric>
#include <vector>

namespace lockstep::common {
namespace {

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

// A job whose ranks' number and strategy are open.
struct Question {
  const TrainConfig& train;
  RankDevice device = RankDevice::kProcessor;
  int64_t available_bytes = 0;  // 0 = unknown

  // What a rank may plan with.
  int64_t budget_bytes() const { return available_bytes / 10 * 9; }
};

struct Cost {
  Strategy strategy = Strategy::kDdp;
  int64_t memory_bytes = 0;
  int64_t traffic_bytes = 0;

  bool operator<(const Cost& other) const {
    if (traffic_bytes != other.traffic_bytes) return traffic_bytes < other.traffic_bytes;
    return memory_bytes < other.memory_bytes;
  }
};

Cost cost_of(Strategy strategy, const Question& asked, int64_t ranks) {
  return {strategy, estimate_memory(asked.train, strategy, ranks, asked.device).total(),
          strategy_traffic_bytes(strategy, asked.train, ranks)};
}

std::string describe(const Cost& cost) {
  return std::string(to_string(cost.strategy))
      .append(" ")
      .append(bytes_text(cost.memory_bytes))
      .append(", sends ")
      .append(bytes_text(cost.traffic_bytes))
      .append(" a step");
}

// Those of the first trained unit and of all that follow: backward ends there.
int64_t parameters_with_backward(const TrainConfig& train) {
  const std::vector<int64_t> units = unit_parameters(train);
  return std::accumulate(units.begin() + first_trained_block(train), units.end(), int64_t{0});
}

StrategyChoice nothing_fits(const Question& asked, int64_t ranks) {
  const Cost least = cost_of(Strategy::kZero3, asked, ranks);
  std::string reason = "zero3: no strategy leaves a tenth of a rank's ";
  reason.append(bytes_text(asked.available_bytes)).append(" free; ").append(describe(least));
  const bool fits = least.memory_bytes <= asked.available_bytes;
  const int64_t micro_batches = asked.train.batch.num_micro_batches();
  for (int64_t more = ranks + 1; more <= std::min(micro_batches, kMostRanks); ++more) {
    if (micro_batches % more != 0) continue;
    if (cost_of(Strategy::kZero3, asked, more).memory_bytes > asked.budget_bytes()) continue;
    reason.append("; ").append(std::to_string(more)).append(" ranks would");
    return {Strategy::kZero3, reason, fits};
  }
  reason.append(
      "; more ranks would not either: a smaller microBatchSize, activationCheckpointing, or tensor "
      "or pipeline parallelism (not in this version) would");
  return {Strategy::kZero3, reason, fits};
}

}  // namespace

int64_t strategy_traffic_bytes(Strategy strategy, const TrainConfig& train, int64_t ranks) {
  const ParallelismConfig& config = train.parallelism;
  const bool is_fast = config.reduction == Reduction::kFast;
  const bool sharded = strategy == Strategy::kZero2 || strategy == Strategy::kZero3;
  const bool at_once = sharded && (is_fast || std::has_single_bit(static_cast<uint64_t>(ranks)));
  const bool is_grouped = strategy == Strategy::kZero3 && config.shard_ranks > 0;
  const int64_t group = is_grouped ? config.shard_ranks : ranks;

  const int64_t micro_batches = std::max<int64_t>(1, train.batch.num_micro_batches() / ranks);
  const std::vector<int64_t> units = unit_parameters(train);
  const int64_t weights =
      std::accumulate(units.begin(), units.end(), int64_t{0}) * elem_bytes(train.precision);
  const int64_t trained = num_trained_parameters(train);
  const int64_t updated = trained * elem_bytes(train.precision);
  const int64_t gradients = trained * elem_bytes(config.reduce_dtype);
  const int64_t reductions = at_once ? micro_batches : 1;
  int64_t bytes = reductions * (gradients - gradients / ranks);
  if (strategy == Strategy::kDdp) bytes += gradients - gradients / ranks;
  if (strategy == Strategy::kZero1 || strategy == Strategy::kZero2) {
    bytes += updated - updated / ranks;
  }
  if (strategy == Strategy::kZero3) {
    const int64_t again = parameters_with_backward(train) * elem_bytes(train.precision);
    bytes += micro_batches * (weights - weights / group + again - again / group);
  }
  if (is_grouped) bytes += gradients / group - gradients / ranks;  // sums, to the replicas
  return bytes;
}

StrategyChoice choose_strategy(const TrainConfig& train, int64_t ranks, int64_t available_bytes,
                               RankDevice device) {
  const Question asked{.train = train, .device = device, .available_bytes = available_bytes};
  const ParallelismConfig& config = train.parallelism;
  if (config.strategy != Strategy::kAuto) {
    return {config.strategy, std::string(to_string(config.strategy)) + ": as the job asks"};
  }
  if (config.shard_ranks > 0) return {Strategy::kZero3, "zero3: as shardRanks asks"};
  if (ranks == 1) {
    const Cost cost = cost_of(Strategy::kDdp, asked, ranks);
    return {Strategy::kDdp,
            "ddp: one rank has nobody to share its " + bytes_text(cost.memory_bytes) + " with",
            available_bytes == 0 || cost.memory_bytes <= available_bytes};
  }
  std::optional<Cost> best;
  std::string costs;
  for (const Strategy strategy : kStrategies) {
    const Cost cost = cost_of(strategy, asked, ranks);
    costs.append(costs.empty() ? "" : "; ").append(describe(cost));
    if (available_bytes > 0 && cost.memory_bytes > asked.budget_bytes()) continue;
    if (!best || cost < *best) best = cost;
  }
  if (!best) return nothing_fits(asked, ranks);
  std::string reason(to_string(best->strategy));
  reason.append(": least traffic, then least memory, of what ")
      .append(available_bytes > 0
                  ? "leaves a tenth of a rank's " + bytes_text(available_bytes) + " free"
                  : "there is, as a rank's memory is unknown")
      .append(": ")
      .append(costs);
  return {best->strategy, reason};
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
