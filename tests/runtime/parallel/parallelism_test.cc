// Strategies and rank counts give the same bits; torch-free backends.
#include <array>
#include <ostream>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/choose_strategy.h"
#include "runtime/parallel/decay_ranges.h"
#include "tests/runtime/comm/rank_threads.h"
#include "tests/runtime/parallel/equivalence.h"

namespace lockstep::common {
void PrintTo(Strategy strategy, std::ostream* out) {
  *out << to_string(strategy);
}
}  // namespace lockstep::common

namespace lockstep::runtime {
namespace {

using common::DType;
using common::ParallelismConfig;
using common::Reduction;
using common::Strategy;

SyntheticResult run_world(const SyntheticRun& run, const ParallelismConfig& config, int world_size,
                          size_t slot_bytes = 0) {
  const auto ranks = make_local_world(world_size, slot_bytes);
  SyntheticResult result = empty_result(run);
  std::mutex mutex;
  run_ranks(world_size, [&](int rank) {
    run_rank(run, config, *ranks[static_cast<size_t>(rank)], result, mutex);
  });
  return result;
}

constexpr auto kAllStrategies = {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2,
                                 Strategy::kZero3};

struct Case {
  int world_size;
  ParallelismConfig config;
  int64_t num_micro_batches;
  DType dtype = DType::kFp32;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << to_string(c.config.strategy) << " on " << c.world_size << " ranks in groups of "
       << c.config.shard_ranks << ", " << c.num_micro_batches << " micro-batches, buckets of "
       << c.config.bucket_bytes << " bytes, " << c.config.prefetch_units << " ahead, "
       << to_string(c.dtype);
}

class EquivalenceTest : public testing::TestWithParam<Case> {};

TEST_P(EquivalenceTest, GivesTheBitsOfOneRank) {
  const SyntheticRun run = {.num_micro_batches = GetParam().num_micro_batches,
                            .dtype = GetParam().dtype};
  const SyntheticResult expected = run_world(run, {.strategy = Strategy::kDdp}, 1);
  EXPECT_TRUE(std::isfinite(expected.norms.back()));
  EXPECT_EQ(run_world(run, GetParam().config, GetParam().world_size, 4096), expected);
}

// The units have 20000, 2000, 49380 and 8192 bytes.
std::vector<Case> all_cases() {
  constexpr int64_t kEachAlone = 1;
  constexpr int64_t kSomeJoinedOneSplit = 40000;
  std::vector<Case> cases;
  for (const Strategy strategy : kAllStrategies) {
    const ParallelismConfig config = {.strategy = strategy};
    for (const int ranks : {1, 2, 3, 4}) cases.push_back({ranks, config, 12});
    cases.push_back({8, config, 24});
    cases.push_back({6, config, 6});
    cases.push_back({4, config, 4});
    for (const int ranks : {2, 3, 4}) cases.push_back({ranks, config, 12, DType::kBf16});
    cases.push_back({2, config, 12, DType::kFp16});
    for (const int64_t bucket_bytes : {kEachAlone, kSomeJoinedOneSplit}) {
      for (const int ranks : {2, 3}) {
        cases.push_back({ranks, {.strategy = strategy, .bucket_bytes = bucket_bytes}, 12});
      }
    }
  }
  for (const int64_t ahead : {0, 2, 3, 8}) {
    cases.push_back({2, {.strategy = Strategy::kZero3, .prefetch_units = ahead}, 4});
  }
  return cases;
}

// Groups of ranks: {ranks, ranks per group, micro-batches}.
std::vector<Case> hybrid_cases() {
  std::vector<Case> cases;
  for (const auto& [ranks, group, micro_batches] : std::vector<std::array<int, 3>>{{4, 2, 4},
                                                                                   {4, 2, 12},
                                                                                   {4, 4, 8},
                                                                                   {6, 2, 12},
                                                                                   {6, 3, 6},
                                                                                   {8, 2, 16},
                                                                                   {8, 4, 24},
                                                                                   {9, 3, 9}}) {
    for (const int64_t bucket_bytes : {1, 40000, 25 << 20}) {
      cases.push_back(
          {ranks,
           {.strategy = Strategy::kZero3, .shard_ranks = group, .bucket_bytes = bucket_bytes},
           micro_batches});
    }
    cases.push_back(
        {ranks, {.strategy = Strategy::kZero3, .shard_ranks = group}, micro_batches, DType::kBf16});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Worlds, EquivalenceTest, testing::ValuesIn(all_cases()));
INSTANTIATE_TEST_SUITE_P(Groups, EquivalenceTest, testing::ValuesIn(hybrid_cases()));

// Frozen weights stay, the others are trained as ever, whatever lies between them.
TEST(FrozenUnitsTest, GiveTheBitsOfOneRankAndKeepTheirWeights) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const SyntheticRun run = {.dtype = dtype, .frozen = {true, false, true, false}};
    const SyntheticResult expected = run_world(run, {.strategy = Strategy::kDdp}, 1);
    for (const size_t unit : {size_t{0}, size_t{2}}) {
      EXPECT_EQ(expected.weights[unit][499], sample_float(-1, -1, static_cast<int64_t>(unit), 499));
    }
    EXPECT_NE(expected.weights[1][499], sample_float(-1, -1, 1, 499));
    for (const Strategy strategy : kAllStrategies) {
      for (const int ranks : {2, 3, 4}) {
        EXPECT_EQ(run_world(run, {.strategy = strategy, .bucket_bytes = 40000}, ranks), expected)
            << to_string(strategy) << " " << ranks;
      }
    }
    EXPECT_EQ(run_world(run, {.strategy = Strategy::kZero3, .shard_ranks = 2}, 4), expected);
  }
}

TEST(FrozenUnitsTest, HaveWeightsOnly) {
  const auto ranks = make_local_world(1);
  for (const Strategy strategy : kAllStrategies) {
    const auto parallelism = make_parallelism({.config = {.strategy = strategy},
                                               .unit_elems = {3000, 3000},
                                               .frozen = {true, false},
                                               .num_micro_batches = 1},
                                              *ranks[0]);
    const ParamShard& frozen = parallelism->owned()[0];
    EXPECT_EQ(frozen.weights.size(), 3000U);
    EXPECT_TRUE(frozen.gradient.empty());
    EXPECT_TRUE(frozen.moment1.empty());
    EXPECT_TRUE(frozen.moment2.empty());
    EXPECT_EQ(parallelism->owned()[1].moment2.size(), 3000U);
  }
}

// All strategies add in the same order of ranks, so fast sums depend on the rank count only (with
// one micro-batch per rank: which of them come together does not matter either).
TEST(FastReductionTest, GivesTheSameBitsForTheSameRanks) {
  const SyntheticRun run = {.num_micro_batches = 3};
  const ParallelismConfig fast = {.strategy = Strategy::kDdp, .reduction = Reduction::kFast};
  const SyntheticResult expected = run_world(run, fast, 3);
  for (const Strategy strategy : kAllStrategies) {
    for (const int64_t bucket_bytes : {1, 40000}) {
      ParallelismConfig config = fast;
      config.strategy = strategy;
      config.bucket_bytes = bucket_bytes;
      EXPECT_EQ(run_world(run, config, 3), expected) << to_string(strategy);
    }
  }
}

// 1e8 - 1e8 + 1: the tree and a running sum differ from (1e8 + 1) - 1e8.
TEST(FastReductionTest, AddsOneAfterTheOther) {
  const auto ranks = make_local_world(1);
  const auto parallelism =
      make_parallelism({.config = {.strategy = Strategy::kZero3, .reduction = Reduction::kFast},
                        .unit_elems = {1},
                        .num_micro_batches = 4},
                       *ranks[0]);
  const std::vector<float> gradients = {1e8F, 1.0F, -1e8F, 1.0F};
  for (const float gradient : gradients) {
    parallelism->gradient_buffer(0)[0] = gradient;
    parallelism->gradient_ready(0);
  }
  parallelism->finish_backward();
  const float running = ((gradients[0] + gradients[1]) + gradients[2]) + gradients[3];
  const float tree = (gradients[0] + gradients[1]) + (gradients[2] + gradients[3]);
  ASSERT_NE(running, tree);
  EXPECT_EQ(parallelism->owned()[0].gradient[0], running);
}

// What bf16 keeps passes unchanged; the sum is exact in fp32, which bf16 could not hold. ddp gives
// the sum to all ranks in bf16, and every rank has the same one.
TEST(FastReductionTest, Bf16GradientsAreSummedInFp32) {
  for (const Strategy strategy : {Strategy::kZero2, Strategy::kDdp}) {
    const auto ranks = make_local_world(2);
    run_ranks(2, [&](int rank) {
      const auto parallelism = make_parallelism({.config = {.strategy = strategy,
                                                            .reduction = Reduction::kFast,
                                                            .reduce_dtype = DType::kBf16},
                                                 .unit_elems = {2048},
                                                 .num_micro_batches = 2},
                                                *ranks[static_cast<size_t>(rank)]);
      std::fill_n(parallelism->gradient_buffer(0), 2048, rank == 0 ? 256.0F : 1.0F);
      parallelism->gradient_ready(0);
      parallelism->finish_backward();
      const float expected = strategy == Strategy::kDdp ? 256.0F : 257.0F;
      for (const float sum : parallelism->shards()[0].gradient) ASSERT_EQ(sum, expected);
    });
  }
}

TEST(ParallelismTest, EveryOptimizerGivesTheBitsOfOneRank) {
  using Kind = common::OptimizerConfig::Kind;
  const std::vector<common::OptimizerConfig> optimizers = {
      {.kind = Kind::kAdam}, {.kind = Kind::kSgd}, {.kind = Kind::kSgd, .momentum = 0.9}};
  for (const common::OptimizerConfig& optimizer : optimizers) {
    const SyntheticRun run = {.optimizer = optimizer};
    const SyntheticResult expected = run_world(run, {.strategy = Strategy::kDdp}, 1);
    for (const Strategy strategy : kAllStrategies) {
      EXPECT_EQ(run_world(run, {.strategy = strategy}, 3, 4096), expected);
    }
  }
}

TEST(ParallelismTest, HoldsOnlyTheMomentsThatTheOptimizerHas) {
  const auto ranks = make_local_world(1);
  for (const Strategy strategy : kAllStrategies) {
    for (const int moments : {0, 1, 2}) {
      const auto parallelism = make_parallelism({.config = {.strategy = strategy},
                                                 .unit_elems = {3000},
                                                 .num_micro_batches = 1,
                                                 .num_moments = moments},
                                                *ranks[0]);
      for (const ParamShard& shard : {parallelism->shards()[0], parallelism->owned()[0]}) {
        EXPECT_EQ(shard.moment1.size(), moments >= 1 ? 3000U : 0U);
        EXPECT_EQ(shard.moment2.size(), moments >= 2 ? 3000U : 0U);
      }
    }
  }
}

// The gradient of a step is the sum in the tree's order: one unit, three micro-batches, by hand.
TEST(ParallelismTest, SumsMicroBatchesInTreeOrder) {
  const auto ranks = make_local_world(1);
  const auto parallelism = make_parallelism(
      {.config = {.strategy = Strategy::kDdp}, .unit_elems = {1}, .num_micro_batches = 3},
      *ranks[0]);
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
        {.config = {.strategy = strategy}, .unit_elems = {3000}, .num_micro_batches = 1},
        *ranks[0]);
    const ParamShard& owned = parallelism->owned()[0];
    EXPECT_EQ(owned.weights.data(), parallelism->shards()[0].weights.data());
    EXPECT_EQ(owned.weights.size(), 3000U);
    EXPECT_EQ(static_cast<const float*>(parallelism->unshard(0, -1).data)[2999], 0.0F);
  }
}

TEST(ParallelismTest, RefusesRanksThatDoNotDivideTheMicroBatches) {
  const auto ranks = make_local_world(2);
  EXPECT_THROW(
      make_parallelism(
          {.config = {.strategy = Strategy::kDdp}, .unit_elems = {8}, .num_micro_batches = 3},
          *ranks[0]),
      std::invalid_argument);
}

TEST(ParallelismTest, RefusesConfigurationsThatContradictThemselves) {
  const auto ranks = make_local_world(2);
  for (const ParallelismConfig& config :
       {ParallelismConfig{.strategy = Strategy::kZero3, .shard_ranks = 3},
        ParallelismConfig{.strategy = Strategy::kZero2, .shard_ranks = 2},
        ParallelismConfig{.strategy = Strategy::kDdp, .reduce_dtype = DType::kBf16},
        ParallelismConfig{.strategy = Strategy::kAuto}}) {
    EXPECT_THROW(
        make_parallelism({.config = config, .unit_elems = {8}, .num_micro_batches = 2}, *ranks[0]),
        std::invalid_argument);
  }
}

TEST(ParallelismTest, FindsAMissingGradient) {
  const auto ranks = make_local_world(1);
  const auto parallelism = make_parallelism(
      {.config = {.strategy = Strategy::kDdp}, .unit_elems = {8}, .num_micro_batches = 2},
      *ranks[0]);
  parallelism->gradient_buffer(0);
  parallelism->gradient_ready(0);
  EXPECT_THROW(parallelism->finish_backward(), std::logic_error);
}

class FreshWeightsTest : public testing::TestWithParam<Strategy> {};

// An update far smaller than what bf16 can tell of a weight stays in the master, and shows in the
// copy once enough of them have come together.
TEST_P(FreshWeightsTest, MastersKeepUpdatesThatCopiesCannotShow) {
  const auto ranks = make_local_world(2);
  run_ranks(2, [&](int rank) {
    const auto parallelism = make_parallelism({.config = {.strategy = GetParam()},
                                               .unit_elems = {3000},
                                               .num_micro_batches = 2,
                                               .dtype = DType::kBf16},
                                              *ranks[static_cast<size_t>(rank)]);
    const auto copy = [&] {
      parallelism->weights_updated();
      float value = 0;
      const ConstValues weights = parallelism->unshard(0, -1);
      EXPECT_EQ(weights.dtype, DType::kBf16);
      widen(1, weights.from(2999), &value);
      parallelism->reshard(0);
      return value;
    };
    for (const ParamShard& shard : parallelism->shards()) {
      std::fill(shard.weights.begin(), shard.weights.end(), 1.0F);
    }
    EXPECT_EQ(copy(), 1.0F);
    constexpr float kUpdate = 0x1p-12F;  // half of the distance to the next bf16 is 2^-8
    for (int update = 1; update <= 17; ++update) {
      for (const ParamShard& shard : parallelism->shards()) {
        for (float& weight : shard.weights) weight += kUpdate;
        if (!shard.weights.empty()) {
          EXPECT_EQ(shard.weights.back(), 1.0F + static_cast<float>(update) * kUpdate);
        }
      }
      EXPECT_EQ(copy(), update <= 16 ? 1.0F : 1.0F + 0x1p-7F) << update;
    }
  });
}

// Weights that the optimizer has changed are gathered anew, and more than two units can be held.
TEST_P(FreshWeightsTest, EveryRankSeesAllSlicesAfterAnUpdate) {
  const auto ranks = make_local_world(2);
  run_ranks(2, [&](int rank) {
    const auto parallelism = make_parallelism({.config = {.strategy = GetParam()},
                                               .unit_elems = {3000, 3000, 3000},
                                               .num_micro_batches = 2},
                                              *ranks[static_cast<size_t>(rank)]);
    for (float value = 1; value < 4; ++value) {
      for (const ParamShard& shard : parallelism->shards()) {
        std::fill(shard.weights.begin(), shard.weights.end(),
                  value + static_cast<float>(shard.unit));
      }
      parallelism->weights_updated();
      for (int64_t unit = 0; unit < 3; ++unit) {
        const auto* const weights =
            static_cast<const float*>(parallelism->unshard(unit, unit < 2 ? unit + 1 : -1).data);
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
