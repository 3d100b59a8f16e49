// Weights that others are trained beside: Note [Base units] in unit_storage.h.
#include <mutex>

#include <gtest/gtest.h>

#include "runtime/common/choose_strategy.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/parallel/make_parallelism.h"
#include "tests/runtime/comm/rank_threads.h"
#include "tests/runtime/parallel/equivalence.h"

namespace lockstep::runtime {
namespace {

using common::ParallelismConfig;
using common::Strategy;

const std::vector<int64_t> kUnits = {5000, 12345, 300, 1500};  // two of the model, two beside them

float base_value(int64_t unit, int64_t elem) {
  return sample_float(-2, -2, unit, elem);
}

ParallelismOptions options_of(const ParallelismConfig& config, DType dtype) {
  return {.config = config,
          .unit_elems = kUnits,
          .frozen = {true, true, false, false},
          .num_base = 2,
          .num_micro_batches = 4,
          .dtype = dtype};
}

void fill_all(Parallelism& parallelism) {
  parallelism.fill_base([](int64_t unit, int64_t begin_elem, std::span<float> out) {
    ASSERT_LT(unit, 2);
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = base_value(unit, begin_elem + static_cast<int64_t>(i));
    }
  });
  parallelism.visit_shards(StateAccess::kFill, [](const ParamShard& shard) {
    EXPECT_TRUE(shard.unit >= 2 || shard.weights.empty());
    for (size_t i = 0; i < shard.weights.size(); ++i) {
      shard.weights[i] = base_value(shard.unit, shard.begin_elem + static_cast<int64_t>(i));
    }
  });
  parallelism.weights_updated();
}

void expect_values(DType dtype, int64_t unit, ConstValues given) {
  const int64_t num_elems = kUnits[static_cast<size_t>(unit)];
  std::vector<float> expected(static_cast<size_t>(num_elems));
  for (int64_t i = 0; i < num_elems; ++i) expected[static_cast<size_t>(i)] = base_value(unit, i);
  if (dtype != DType::kFp32) {
    std::vector<uint16_t> halves(expected.size());
    narrow(num_elems, expected.data(), {dtype, halves.data()});
    widen(num_elems, {dtype, halves.data()}, expected.data());
  }
  std::vector<float> found(expected.size());
  widen(num_elems, given, found.data());
  EXPECT_EQ(found, expected) << unit;
}

TEST(BaseUnitsTest, AreThereBesideTheTrainedOnesUnderEveryStrategy) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    for (const int ranks : {1, 2, 4}) {
      std::vector<ParallelismConfig> configs;
      for (const Strategy strategy :
           {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
        configs.push_back({.strategy = strategy});
      }
      configs.push_back({.strategy = Strategy::kZero3, .prefetch_units = 0});
      if (ranks == 4) configs.push_back({.strategy = Strategy::kZero3, .shard_ranks = 2});
      for (const ParallelismConfig& config : configs) {
        const auto world = make_local_world(ranks);
        run_ranks(ranks, [&](int rank) {
          const auto parallelism =
              make_parallelism(options_of(config, dtype), *world[static_cast<size_t>(rank)]);
          fill_all(*parallelism);
          for (int pass = 0; pass < 2; ++pass) {
            for (const int64_t unit : {0, 1}) {
              const int64_t next = unit == 0 ? 1 : -1;
              const ConstValues own = parallelism->unshard(unit, next);
              const ConstValues beside = parallelism->unshard(2 + unit, next < 0 ? -1 : 2 + next);
              expect_values(dtype, unit, own);
              expect_values(dtype, 2 + unit, beside);
              EXPECT_EQ(parallelism->gradient_buffer(unit), nullptr);
              parallelism->reshard(2 + unit);
              parallelism->reshard(unit);
            }
            parallelism->weights_updated();
          }
        });
      }
    }
  }
}

TEST(BaseUnitsTest, AreNoState) {
  const auto world = make_local_world(1);
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const ParallelismOptions options = options_of({.strategy = Strategy::kZero1}, dtype);
    const auto parallelism = make_parallelism(options, *world[0]);
    fill_all(*parallelism);
    for (const ParamShard& shard : parallelism->owned()) {
      const bool is_base = shard.unit < 2;
      EXPECT_EQ(shard.weights.empty(), is_base);
      EXPECT_EQ(shard.moment2.empty(), is_base);
    }
    // Moments of 300 and 1500 elements, each in whole chunks; in bf16 also their masters.
    const int64_t kinds = dtype == DType::kFp32 ? 2 : 3;
    EXPECT_EQ(offloaded_bytes(options, 0, 1), kinds * 3 * kNormChunkElems * 4);
  }
}

}  // namespace
}  // namespace lockstep::runtime
