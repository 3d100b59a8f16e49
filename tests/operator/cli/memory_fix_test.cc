#include "operator/cli/memory_fix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/choose_strategy.h"
#include "tests/operator/cli/large_model.h"

namespace lockstep::cli {
namespace {

using common::Strategy;
using testing::ElementsAre;
using testing::HasSubstr;

// 100 M parameters with eight sequences in a micro-batch.
common::TrainConfig large_job() {
  return large_model(512, {.global_batch_size = 64, .micro_batch_size = 8});
}

int64_t total(const common::TrainConfig& train, Strategy strategy, int64_t ranks) {
  return common::estimate_memory(train, strategy, ranks).total();
}

std::optional<MemoryFix> fix_of(const common::TrainConfig& train, Strategy strategy,
                                int64_t limit_bytes) {
  const RankMemory memory{.limit_bytes = limit_bytes, .source = "--memory"};
  std::optional<MemoryFix> fix = find_memory_fix(train, strategy, 4, memory);
  EXPECT_LE(fix ? fix->total_bytes : 0, limit_bytes);
  return fix;
}

TEST(MemoryFixTest, NothingIsWrongWithWhatFits) {
  const common::TrainConfig train = large_job();
  EXPECT_FALSE(find_memory_fix(train, Strategy::kDdp, 4, {}));
  EXPECT_FALSE(fix_of(train, Strategy::kDdp, total(train, Strategy::kDdp, 4)));
}

TEST(MemoryFixTest, AnotherStrategyGoesFirst) {
  const common::TrainConfig train = large_job();
  for (const Strategy strategy : {Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    const int64_t limit = total(train, strategy, 4);
    const auto fix = fix_of(train, Strategy::kDdp, limit);
    ASSERT_TRUE(fix);
    const std::string name(common::to_string(strategy));
    EXPECT_THAT(fix->changes, ElementsAre("strategy ddp -> " + name));
    EXPECT_THAT(fix->sets, ElementsAre("train.parallelism.strategy=" + name));
    EXPECT_EQ(fix->total_bytes, limit);
  }
}

TEST(MemoryFixTest, ThenTheLargestMicroBatchThatFitsWithTheSameGlobalBatch) {
  const common::TrainConfig train = large_job();
  for (const int64_t micro_batch : {4, 2, 1}) {
    common::TrainConfig smaller = train;
    smaller.batch.micro_batch_size = micro_batch;
    const int64_t limit = total(smaller, Strategy::kZero3, 4);
    const auto fix = fix_of(train, Strategy::kZero3, limit);
    ASSERT_TRUE(fix);
    const std::string size = std::to_string(micro_batch);
    EXPECT_THAT(fix->changes, ElementsAre("microBatchSize 8 -> " + size));
    EXPECT_THAT(fix->sets,
                ElementsAre("train.batch={globalBatchSize: 64, microBatchSize: " + size + "}"));
    const auto both = fix_of(train, Strategy::kDdp, limit);
    ASSERT_TRUE(both);
    EXPECT_THAT(both->changes, ElementsAre("strategy ddp -> zero3", "microBatchSize 8 -> " + size));
  }
}

TEST(MemoryFixTest, ThenCheckpointingThenRanks) {
  common::TrainConfig train = large_job();
  train.batch.micro_batch_size = 1;
  common::TrainConfig checkpointed = train;
  checkpointed.activation_checkpointing = common::ActivationCheckpointing::kBlock;
  const auto fix = fix_of(train, Strategy::kZero3, total(checkpointed, Strategy::kZero3, 4));
  ASSERT_TRUE(fix);
  EXPECT_THAT(fix->changes, ElementsAre("activationCheckpointing none -> block"));
  const auto ranks = fix_of(train, Strategy::kZero3, total(checkpointed, Strategy::kZero3, 16));
  ASSERT_TRUE(ranks);
  EXPECT_THAT(ranks->changes, ElementsAre("ranks 4 -> 32")) << "and nothing that is not needed";
  EXPECT_THAT(ranks->sets, ElementsAre("ranks=32"));
  EXPECT_FALSE(fix_of(train, Strategy::kZero3, int64_t{1} << 20)) << "nothing is enough";
}

TEST(MemoryFixTest, GroupsOfRanksStayTheirStrategy) {
  common::TrainConfig train = large_job();
  train.parallelism.shard_ranks = 2;
  const int64_t smallest = total(train, Strategy::kZero3, 4) - 1;
  const auto fix = fix_of(train, Strategy::kZero3, smallest);
  ASSERT_TRUE(fix);
  EXPECT_THAT(fix->changes, ElementsAre(HasSubstr("microBatchSize")));
}

TEST(MemoryFixTest, AGpuHoldsMoreOfTheLoss) {
  const common::TrainConfig train = large_job();
  const RankMemory memory{.device = common::RankDevice::kGpu,
                          .limit_bytes = total(train, Strategy::kZero3, 4),
                          .source = "--memory"};
  EXPECT_TRUE(find_memory_fix(train, Strategy::kZero3, 4, memory));
}

}  // namespace
}  // namespace lockstep::cli
