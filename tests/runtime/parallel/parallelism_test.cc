// Strategies and rank counts give the same bits; torch-free backends.
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/parallel/decay_ranges.h"
#include "tests/runtime/comm/rank_threads.h"
#include "tests/runtime/parallel/equivalence.h"

namespace lockstep::runtime {
namespace {

using common::Strategy;

SyntheticResult run_world(const SyntheticRun& run, Strategy strategy, int world_size,
                          size_t slot_bytes = 0) {
  const auto ranks = make_local_world(world_size, slot_bytes);
  SyntheticResult result = empty_result(run);
  std::mutex mutex;
  run_ranks(world_size, [&](int rank) {
    run_rank(run, strategy, *ranks[static_cast<size_t>(rank)], result, mutex);
  });
  return result;
}

struct Case {
  int world_size;
  Strategy strategy;
  int64_t num_micro_batches;
};

class EquivalenceTest : public testing::TestWithParam<Case> {};

TEST_P(EquivalenceTest, GivesTheBitsOfOneRank) {
  const SyntheticRun run = {.num_micro_batches = GetParam().num_micro_batches};
  const SyntheticResult expected = run_world(run, Strategy::kDdp, 1);
  EXPECT_TRUE(std::isfinite(expected.norms.back()));
  EXPECT_EQ(run_world(run, GetParam().strategy, GetParam().world_size, 4096), expected);
}

constexpr auto kAllStrategies = {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2,
                                 Strategy::kZero3};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Strategy strategy : kAllStrategies) {
    for (const int ranks : {1, 2, 3, 4}) cases.push_back({ranks, strategy, 12});
    cases.push_back({8, strategy, 24});
    cases.push_back({6, strategy, 6});
    cases.push_back({4, strategy, 4});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Worlds, EquivalenceTest, testing::ValuesIn(all_cases()));

// The gradient of a step is the sum in the tree's order: one unit, three micro-batches, by hand.
TEST(ParallelismTest, SumsMicroBatchesInTreeOrder) {
  const auto ranks = make_local_world(1);
  const auto parallelism = make_parallelism(
      {.strategy = Strategy::kDdp, .unit_elems = {1}, .num_micro_batches = 3}, *ranks[0]);
  const std::vector<float> gradients = {1e8F, -1e8F, 1.0F};
  for (const float gradient : gradients) {
    parallelism->gradient_buffer(0)[0] = gradient;
    parallelism->gradient_ready(0);
  }
  parallelism->finish_backward();
  EXPECT_EQ(parallelism->owned()[0].gradient[0], (gradients[0] + gradients[1]) + gradients[2]);
}

TEST(ParallelismTest, OwnedPartsAreViewsOfTheShards) {
  const auto ranks = make_local_world(1);
  for (const Strategy strategy : kAllStrategies) {
    const auto parallelism = make_parallelism(
        {.strategy = strategy, .unit_elems = {3000}, .num_micro_batches = 1}, *ranks[0]);
    const ParamShard& owned = parallelism->owned()[0];
    EXPECT_EQ(owned.weights.data(), parallelism->shards()[0].weights.data());
    EXPECT_EQ(owned.weights.size(), 3000U);
    EXPECT_EQ(parallelism->unshard(0, -1)[2999], 0.0F);
  }
}

TEST(ParallelismTest, RefusesRanksThatDoNotDivideTheMicroBatches) {
  const auto ranks = make_local_world(2);
  EXPECT_THROW(
      make_parallelism({.strategy = Strategy::kDdp, .unit_elems = {8}, .num_micro_batches = 3},
                       *ranks[0]),
      std::invalid_argument);
}

TEST(ParallelismTest, FindsAMissingGradient) {
  const auto ranks = make_local_world(1);
  const auto parallelism = make_parallelism(
      {.strategy = Strategy::kDdp, .unit_elems = {8}, .num_micro_batches = 2}, *ranks[0]);
  parallelism->gradient_buffer(0);
  parallelism->gradient_ready(0);
  EXPECT_THROW(parallelism->finish_backward(), std::logic_error);
}

class FreshWeightsTest : public testing::TestWithParam<Strategy> {};

// Weights that the optimizer has changed are gathered anew, and more than two units can be held.
TEST_P(FreshWeightsTest, EveryRankSeesAllSlicesAfterAnUpdate) {
  const auto ranks = make_local_world(2);
  run_ranks(2, [&](int rank) {
    const auto parallelism = make_parallelism(
        {.strategy = GetParam(), .unit_elems = {3000, 3000, 3000}, .num_micro_batches = 2},
        *ranks[static_cast<size_t>(rank)]);
    for (float value = 1; value < 4; ++value) {
      for (const ParamShard& shard : parallelism->shards()) {
        std::fill(shard.weights.begin(), shard.weights.end(),
                  value + static_cast<float>(shard.unit));
      }
      parallelism->weights_updated();
      for (int64_t unit = 0; unit < 3; ++unit) {
        const float* const weights = parallelism->unshard(unit, unit < 2 ? unit + 1 : -1);
        for (const int64_t i : {0, 1024, 2999}) {
          EXPECT_EQ(weights[i], value + static_cast<float>(unit));
        }
      }
      for (int64_t unit = 2; unit >= 0; --unit) {
        parallelism->reshard(unit);
        parallelism->gradient_buffer(unit);
        parallelism->gradient_ready(unit);
      }
      parallelism->finish_backward();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, FreshWeightsTest, testing::ValuesIn(kAllStrategies));

TEST(DecayRangesTest, ExcludesVectorsWhenOnlyMatricesDecay) {
  const std::vector<Unit> units = {
      {.name = "layer.0",
       .tensors = {{.name = "norm", .shape = {4}, .begin_elem = 0, .num_elems = 4},
                   {.name = "proj", .shape = {2, 4}, .begin_elem = 4, .num_elems = 8}},
       .num_elems = 12}};
  const auto matrices = decay_ranges(units, true);
  EXPECT_FALSE(matrices[0][0].decays);
  EXPECT_TRUE(matrices[0][1].decays);
  EXPECT_EQ(matrices[0][1].begin_elem, 4);
  EXPECT_EQ(matrices[0][1].end_elem, 12);
  EXPECT_TRUE(decay_ranges(units, false)[0][0].decays);
}

}  // namespace
}  // namespace lockstep::runtime
