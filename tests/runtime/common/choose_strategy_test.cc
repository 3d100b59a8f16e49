#include "runtime/common/choose_strategy.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/estimate_memory.h"

namespace lockstep::common {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// 113 M parameters; `micro_batches` per step.
TrainConfig train_of(int64_t micro_batches) {
  return {.model = {.model_type = "llama",
                    .vocab_size = 8192,
                    .hidden_size = 1024,
                    .intermediate_size = 2816,
                    .num_hidden_layers = 8,
                    .num_attention_heads = 16,
                    .num_key_value_heads = 16,
                    .head_dim = 64,
                    .max_position_embeddings = 64},
          .data = {.sequence_length = 64},
          .batch = {.global_batch_size = micro_batches, .micro_batch_size = 1}};
}

// The least memory of a rank in which `strategy` leaves a tenth free.
int64_t memory_for(const TrainConfig& train, Strategy strategy, int64_t ranks) {
  return estimate_memory(train, strategy, ranks).total() / 9 * 10 + 1000;
}

Strategy chosen(const TrainConfig& train, int64_t ranks, int64_t available_bytes) {
  const StrategyChoice choice = choose_strategy(train, ranks, available_bytes);
  EXPECT_THAT(choice.reason, StartsWith(std::string(to_string(choice.strategy)) + ": "));
  EXPECT_TRUE(choice.fits);
  return choice.strategy;
}

TEST(ChooseStrategyTest, FollowsTheJobWhateverFits) {
  TrainConfig train = train_of(8);
  for (const Strategy strategy :
       {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    train.parallelism.strategy = strategy;
    EXPECT_EQ(chosen(train, 4, 1), strategy);
  }
  train.parallelism = {.shard_ranks = 2};
  EXPECT_EQ(chosen(train, 4, 1), Strategy::kZero3);
}

TEST(ChooseStrategyTest, OneRankSharesWithNobody) {
  EXPECT_EQ(chosen(train_of(8), 1, 0), Strategy::kDdp);
  EXPECT_FALSE(choose_strategy(train_of(8), 1, 1).fits);
}

TEST(ChooseStrategyTest, TakesTheLeastTrafficThatFits) {
  // With two micro-batches per rank, zero2 reduces twice a step and zero3 gathers four times.
  const TrainConfig train = train_of(8);
  EXPECT_EQ(chosen(train, 4, 0), Strategy::kZero1);
  for (const Strategy strategy : {Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    EXPECT_EQ(chosen(train, 4, memory_for(train, strategy, 4)), strategy) << to_string(strategy);
  }
  // With one, zero2 moves no more than ddp and zero1, and needs less memory.
  EXPECT_EQ(chosen(train_of(4), 4, 0), Strategy::kZero2);
  // Three ranks exchange once per step and keep whole gradients until then: zero2 saves nothing.
  EXPECT_EQ(chosen(train_of(6), 3, 0), Strategy::kZero1);
}

// CUDA's own memory and larger chunks of logits leave less for state.
TEST(ChooseStrategyTest, OnAGpuLessIsLeft) {
  const TrainConfig train = train_of(8);
  const int64_t enough_here = memory_for(train, Strategy::kZero1, 4);
  EXPECT_EQ(choose_strategy(train, 4, enough_here).strategy, Strategy::kZero1);
  const StrategyChoice on_gpu = choose_strategy(train, 4, enough_here, RankDevice::kGpu);
  EXPECT_NE(on_gpu.strategy, Strategy::kZero1);
  const int64_t enough_there =
      estimate_memory(train, Strategy::kZero1, 4, RankDevice::kGpu).total() / 9 * 10 + 1000;
  EXPECT_EQ(choose_strategy(train, 4, enough_there, RankDevice::kGpu).strategy, Strategy::kZero1);
}

TEST(ChooseStrategyTest, SixteenBitWeightsTravelInHalfTheBytes) {
  TrainConfig train = train_of(4);
  const int64_t params = num_parameters(train.model);
  const auto moved = [&](Strategy strategy) { return strategy_traffic_bytes(strategy, train, 4); };
  const int64_t fp32 = moved(Strategy::kZero3);
  const int64_t ddp = moved(Strategy::kDdp);
  train.precision = DType::kBf16;
  EXPECT_EQ(fp32 - moved(Strategy::kZero3), 2 * 2 * (params - params / 4));
  EXPECT_EQ(moved(Strategy::kDdp), ddp) << "gradients are fp32";
}

TEST(ChooseStrategyTest, TellsTheNumbers) {
  const StrategyChoice choice = choose_strategy(train_of(8), 4, int64_t{8} << 30);
  EXPECT_THAT(choice.reason, HasSubstr("leaves a tenth of a rank's 8.0 GiB free"));
  for (const char* const part : {"ddp ", "; zero1 ", "; zero2 ", "; zero3 ", " a step"}) {
    EXPECT_THAT(choice.reason, HasSubstr(part));
  }
}

TEST(ChooseStrategyTest, SaysHowManyRanksWouldFit) {
  const TrainConfig train = train_of(8);
  const int64_t available = memory_for(train, Strategy::kZero3, 8);
  const StrategyChoice choice = choose_strategy(train, 2, available);
  EXPECT_EQ(choice.strategy, Strategy::kZero3);
  EXPECT_THAT(choice.reason, HasSubstr("; 8 ranks would"));
  EXPECT_FALSE(choice.fits);
  const int64_t tight = estimate_memory(train, Strategy::kZero3, 2).total();
  EXPECT_TRUE(choose_strategy(train, 2, tight).fits) << "not refused: the estimate may err";
}

TEST(ChooseStrategyTest, NamesTensorAndPipelineParallelismWhereNoRankCountFits) {
  const StrategyChoice choice = choose_strategy(train_of(8), 4, 1 << 20);
  EXPECT_EQ(choice.strategy, Strategy::kZero3);
  EXPECT_THAT(choice.reason, HasSubstr("tensor or pipeline parallelism (not in this version)"));
  EXPECT_FALSE(choice.fits);
}

TEST(StrategyTrafficTest, CountsReductionsAndGathers) {
  const TrainConfig train = train_of(8);  // two micro-batches on each of 4 ranks
  const int64_t whole = 4 * num_parameters(train.model);
  const int64_t moved = whole - whole / 4;
  EXPECT_EQ(strategy_traffic_bytes(Strategy::kDdp, train, 4), 2 * moved);
  EXPECT_EQ(strategy_traffic_bytes(Strategy::kZero1, train, 4), 2 * moved);
  EXPECT_EQ(strategy_traffic_bytes(Strategy::kZero2, train, 4), 3 * moved);
  EXPECT_EQ(strategy_traffic_bytes(Strategy::kZero3, train, 4), 6 * moved);
  EXPECT_EQ(strategy_traffic_bytes(Strategy::kZero3, train, 1), 0);

  TrainConfig grouped = train;
  grouped.parallelism.shard_ranks = 2;
  EXPECT_EQ(strategy_traffic_bytes(Strategy::kZero3, grouped, 4),
            2 * moved + 4 * (whole / 2) + whole / 4);
  TrainConfig rounded = train;
  rounded.parallelism.reduction = Reduction::kFast;
  rounded.parallelism.reduce_dtype = DType::kBf16;
  EXPECT_EQ(strategy_traffic_bytes(Strategy::kDdp, rounded, 4), moved);
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
