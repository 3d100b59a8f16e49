// What a strategy allocates is what ZeRO's formulas say: every FloatBuffer is counted as it comes
// and goes, over whole steps.
#include <algorithm>
#include <cstdlib>
#include <new>
#include <ostream>

#include <gtest/gtest.h>

#include "runtime/common/choose_strategy.h"
#include "tests/runtime/comm/rank_threads.h"
#include "tests/runtime/parallel/equivalence.h"

namespace {

// Bytes of aligned allocations of this thread, alive now and at most. Ranks are threads.
thread_local int64_t live_bytes = 0;
thread_local int64_t peak_bytes = 0;

}  // namespace

// FloatBuffer is what allocates with an alignment. The size stands before the block.
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto header = static_cast<size_t>(alignment);
  void* const base = std::aligned_alloc(header, header + (bytes + header - 1) / header * header);
  if (base == nullptr) throw std::bad_alloc();
  *static_cast<size_t*>(base) = bytes;
  live_bytes += static_cast<int64_t>(bytes);
  peak_bytes = std::max(peak_bytes, live_bytes);
  return static_cast<std::byte*>(base) + header;
}

void operator delete(void* block, std::align_val_t alignment) noexcept {
  if (block == nullptr) return;
  std::byte* const base = static_cast<std::byte*>(block) - static_cast<size_t>(alignment);
  live_bytes -= static_cast<int64_t>(*reinterpret_cast<size_t*>(base));
  std::free(base);
}

namespace lockstep::runtime {
namespace {

using common::ParallelismConfig;
using common::Reduction;
using common::Strategy;

struct Case {
  ParallelismConfig config;
  int world_size;
  int64_t micro_batches_per_rank;
  double bytes_per_parameter;  // weights + gradient + two moments, and the copy in 16 bits
  common::DType dtype = common::DType::kFp32;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << to_string(c.config.strategy) << " on " << c.world_size << " ranks in groups of "
       << c.config.shard_ranks << ", " << c.micro_batches_per_rank << " micro-batches each, "
       << to_string(c.dtype);
}

class MemoryTest : public testing::TestWithParam<Case> {};

// Many units, so that the few that are under way weigh little.
TEST_P(MemoryTest, PeakOfAStepIsWithinFivePercentOfTheFormula) {
  constexpr int64_t kUnits = 256;
  constexpr int64_t kUnitElems = 4096;
  const Case& c = GetParam();
  const SyntheticRun run = {.unit_elems = std::vector<int64_t>(kUnits, kUnitElems),
                            .num_micro_batches = c.world_size * c.micro_batches_per_rank,
                            .steps = 2,
                            .dtype = c.dtype};
  const auto ranks = make_local_world(c.world_size);
  SyntheticResult result = empty_result(run);
  std::mutex mutex;
  run_ranks(c.world_size, [&](int rank) {
    live_bytes = peak_bytes = 0;
    run_rank(run, c.config, *ranks[static_cast<size_t>(rank)], result, mutex);
    EXPECT_EQ(live_bytes, 0);
    const double formula = c.bytes_per_parameter * kUnits * kUnitElems;
    EXPECT_GE(static_cast<double>(peak_bytes), formula);
    EXPECT_LE(static_cast<double>(peak_bytes), 1.05 * formula);
  });
}

TEST(FrozenMemoryTest, AFrozenUnitCostsItsWeights) {
  constexpr int64_t kUnits = 256;
  constexpr int64_t kUnitElems = 4096;
  SyntheticRun run = {.unit_elems = std::vector<int64_t>(kUnits, kUnitElems),
                      .num_micro_batches = 1,
                      .steps = 2,
                      .frozen = std::vector<bool>(kUnits, true)};
  for (int64_t unit = 0; unit < kUnits; unit += 4) run.frozen[static_cast<size_t>(unit)] = false;
  const auto ranks = make_local_world(1);
  SyntheticResult result = empty_result(run);
  std::mutex mutex;
  live_bytes = peak_bytes = 0;
  run_rank(run, {.strategy = Strategy::kDdp, .bucket_bytes = 16 << 10}, *ranks[0], result, mutex);
  const double formula = (16.0 / 4 + 4.0 * 3 / 4) * kUnits * kUnitElems;
  EXPECT_GE(static_cast<double>(peak_bytes), formula);
  EXPECT_LE(static_cast<double>(peak_bytes), 1.05 * formula);
}

// Exchanges of a unit each, so that those under way weigh little too.
ParallelismConfig with(Strategy strategy, int64_t shard_ranks = 0) {
  return {.strategy = strategy, .shard_ranks = shard_ranks, .bucket_bytes = 16 << 10};
}

// Source of the formulas: ZeRO, arXiv:1910.02054, with fp32 throughout.
INSTANTIATE_TEST_SUITE_P(Strategies, MemoryTest,
                         testing::Values(Case{with(Strategy::kDdp), 1, 1, 16},
                                         Case{with(Strategy::kDdp), 4, 2, 16},
                                         Case{with(Strategy::kZero1), 2, 1, 8 + 8.0 / 2},
                                         Case{with(Strategy::kZero1), 4, 2, 8 + 8.0 / 4},
                                         Case{with(Strategy::kZero2), 2, 1, 4 + 12.0 / 2},
                                         Case{with(Strategy::kZero2), 4, 2, 4 + 12.0 / 4},
                                         Case{with(Strategy::kZero3), 2, 1, 16.0 / 2},
                                         Case{with(Strategy::kZero3), 4, 2, 16.0 / 4},
                                         Case{with(Strategy::kZero3, 2), 4, 2, 16.0 / 2}));

// With accumulation the counters of the reproducible sum come on top, and nothing else: from four
// micro-batches per rank on one more gradient per doubling, of what the rank keeps of it.
INSTANTIATE_TEST_SUITE_P(Accumulation, MemoryTest,
                         testing::Values(Case{with(Strategy::kDdp), 2, 4, 16 + 4},
                                         Case{with(Strategy::kDdp), 1, 8, 16 + 2 * 4},
                                         Case{with(Strategy::kZero1), 2, 8, 8 + 8.0 / 2 + 2 * 4},
                                         Case{with(Strategy::kZero2), 2, 4, 4 + 12.0 / 2 + 4.0 / 2},
                                         Case{with(Strategy::kZero3), 2, 8, 16.0 / 2 + 2 * 4.0 / 2},
                                         Case{with(Strategy::kZero3), 4, 4, 16.0 / 4 + 4.0 / 4}));

// Gradients and what the optimizer needs are fp32; see Note [Compute copies].
constexpr auto kBf16 = common::DType::kBf16;
INSTANTIATE_TEST_SUITE_P(ComputeCopies, MemoryTest,
                         testing::Values(Case{with(Strategy::kDdp), 4, 2, 18, kBf16},
                                         Case{with(Strategy::kZero1), 4, 2, 6 + 12.0 / 4, kBf16},
                                         Case{with(Strategy::kZero2), 4, 2, 2 + 16.0 / 4, kBf16},
                                         Case{with(Strategy::kZero3), 4, 2, 18.0 / 4, kBf16},
                                         Case{with(Strategy::kZero3, 2), 4, 2, 18.0 / 2, kBf16}));

// The tree keeps a partial sum per level; a running sum keeps none.
INSTANTIATE_TEST_SUITE_P(
    FastReduction, MemoryTest,
    testing::Values(
        Case{{.strategy = Strategy::kDdp, .reduction = Reduction::kFast, .bucket_bytes = 16 << 10},
             2,
             7,
             16},
        Case{
            {.strategy = Strategy::kZero3, .reduction = Reduction::kFast, .bucket_bytes = 16 << 10},
            2,
            7,
            16.0 / 2}));

}  // namespace
}  // namespace lockstep::runtime
