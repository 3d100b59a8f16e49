#include "runtime/common/choose_strategy.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kMiB = 1 << 20;

// A model of 1 Mi parameters (16 MiB of state), its units small, one micro-batch per rank.
StrategyFacts facts_of(int64_t ranks, int64_t available_mebibytes) {
  return {.num_parameters = kMiB,
          .largest_unit = 1024,
          .ranks = ranks,
          .available_memory_bytes = available_mebibytes * kMiB};
}

TEST(ChooseStrategyTest, FollowsTheTable) {
  struct Row {
    ParallelismConfig config;
    StrategyFacts facts;
    Strategy expected;
    std::string reason;  // a part of it
  };
  StrategyFacts accumulating = facts_of(4, 64);
  accumulating.micro_batches_per_rank = 2;
  StrategyFacts tight = accumulating;
  tight.available_memory_bytes = 16 * kMiB;
  StrategyFacts tighter = accumulating;
  tighter.available_memory_bytes = 10 * kMiB;
  StrategyFacts odd = accumulating;
  odd.ranks = 3;
  const std::vector<Row> rows = {
      {{.strategy = Strategy::kDdp}, facts_of(4, 1), Strategy::kDdp, "as the job asks"},
      {{.strategy = Strategy::kZero3}, facts_of(1, 0), Strategy::kZero3, "as the job asks"},
      {{.shard_ranks = 2}, facts_of(4, 1000), Strategy::kZero3, "as shardRanks asks"},
      {{}, facts_of(1, 1), Strategy::kDdp, "one rank has nobody to share 16.0 MiB"},
      // ddp, zero1 and zero2 move the same with one micro-batch per rank; zero2 needs least.
      {{}, facts_of(4, 0), Strategy::kZero2, "memory of unknown size"},
      {{}, facts_of(4, 64), Strategy::kZero2, "half of a rank's memory (32.0 MiB)"},
      {{}, facts_of(4, 10), Strategy::kZero3, "zero3 4.0 MiB, sends 9.0 MiB a step"},
      // With two, zero2 reduces twice as often.
      {{}, accumulating, Strategy::kZero1, "zero1 10.0 MiB, sends 6.0 MiB a step"},
      {{}, tight, Strategy::kZero2, "zero2 7.0 MiB, sends 9.0 MiB a step"},
      {{}, tighter, Strategy::kZero3, "zero3 4.0 MiB, sends 18.0 MiB a step"},
      // Three ranks exchange once per step and keep whole gradients until then.
      {{}, odd, Strategy::kZero1, "zero2 12.0 MiB"},
  };
  for (const Row& row : rows) {
    const StrategyChoice choice = choose_strategy(row.config, row.facts);
    EXPECT_EQ(choice.strategy, row.expected) << choice.reason;
    EXPECT_THAT(choice.reason, HasSubstr(row.reason));
    EXPECT_THAT(choice.reason, StartsWith(std::string(to_string(row.expected)) + ": "));
    EXPECT_TRUE(choice.fits);
  }
}

TEST(ChooseStrategyTest, SaysHowManyRanksWouldFit) {
  StrategyFacts facts = facts_of(2, 14);
  facts.micro_batches_per_rank = 6;
  const StrategyChoice choice = choose_strategy({}, facts);
  EXPECT_EQ(choice.strategy, Strategy::kZero3);
  EXPECT_THAT(choice.reason, HasSubstr("it would fit with 4 ranks"));
  EXPECT_TRUE(choice.fits) << "it is beyond half of the memory, not beyond all of it";
  facts.available_memory_bytes = 11 * kMiB;
  EXPECT_FALSE(choose_strategy({}, facts).fits);
}

TEST(ChooseStrategyTest, NamesTensorAndPipelineParallelismWhenAUnitAloneIsTooLarge) {
  StrategyFacts facts = facts_of(8, 4);
  facts.largest_unit = kMiB / 2;
  const StrategyChoice choice = choose_strategy({}, facts);
  EXPECT_EQ(choice.strategy, Strategy::kZero3);
  EXPECT_THAT(choice.reason, HasSubstr("only tensor or pipeline parallelism"));
  EXPECT_FALSE(choice.fits);
}

// As printed by Megatron's distributed optimizer for fp32, and by ZeRO.
TEST(StrategyCostTest, StateFollowsTheFormulas) {
  for (const int64_t d : {1, 2, 4, 8}) {
    const StrategyFacts facts = facts_of(d, 0);
    EXPECT_EQ(strategy_cost(Strategy::kDdp, {}, facts).state_bytes, 16 * kMiB);
    EXPECT_EQ(strategy_cost(Strategy::kZero1, {}, facts).state_bytes, 8 * kMiB + 8 * kMiB / d);
    EXPECT_EQ(strategy_cost(Strategy::kZero2, {}, facts).state_bytes, 4 * kMiB + 12 * kMiB / d);
    EXPECT_EQ(strategy_cost(Strategy::kZero3, {}, facts).state_bytes, 16 * kMiB / d);
  }
  EXPECT_EQ(strategy_cost(Strategy::kZero3, {.shard_ranks = 2}, facts_of(8, 0)).state_bytes,
            16 * kMiB / 2);
}

TEST(StrategyCostTest, TheTreeCostsAPartialSumPerDoubling) {
  StrategyFacts facts = facts_of(2, 0);
  const std::vector<std::pair<int64_t, int64_t>> extra = {{1, 0}, {2, 0}, {4, 1}, {8, 2}, {7, 2}};
  for (const auto& [micro_batches, sums] : extra) {
    facts.micro_batches_per_rank = micro_batches;
    EXPECT_EQ(strategy_cost(Strategy::kDdp, {}, facts).state_bytes, (16 + 4 * sums) * kMiB);
    EXPECT_EQ(strategy_cost(Strategy::kZero3, {}, facts).state_bytes, (8 + 2 * sums) * kMiB);
    EXPECT_EQ(strategy_cost(Strategy::kDdp, {.reduction = Reduction::kFast}, facts).state_bytes,
              16 * kMiB);
  }
}

TEST(StrategyTest, NamesAreReadBack) {
  for (const Strategy strategy :
       {Strategy::kAuto, Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    EXPECT_EQ(strategy_named(to_string(strategy)), strategy);
  }
  EXPECT_EQ(strategy_named("zero4"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::common
