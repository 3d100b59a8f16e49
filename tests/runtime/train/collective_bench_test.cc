#include "runtime/train/collective_bench.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {
namespace {

constexpr BenchOptions kSmall = {
    .sizes = {.min_bytes = 100, .max_bytes = 4000, .step_factor = 6}, .iterations = 3, .warmup = 1};

// Brings all bytes but the last one of `verb`, which it changes.
class LyingCollective : public Collective {
 public:
  LyingCollective(Collective& honest, bool lies_in_gathers)
      : honest_(honest), lies_in_gathers_(lies_in_gathers) {}
  int rank() const override { return honest_.rank(); }
  int world_size() const override { return honest_.world_size(); }
  const Topology& topology() const override { return honest_.topology(); }
  PendingPtr all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                        std::string_view what) override {
    PendingPtr pending = honest_.all_gather(shard, full, what);
    if (lies_in_gathers_ && what != "bench figures") spoil(*pending, full);
    return pending;
  }
  PendingPtr all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                        std::string_view what, Reach reach) override {
    PendingPtr pending = honest_.all_to_all(send, recv, what, reach);
    if (!lies_in_gathers_) spoil(*pending, recv.first(4));
    return pending;
  }
  void begin_step(int64_t step) override { honest_.begin_step(step); }
  std::unique_ptr<Collective> split(std::span<const int> members) override {
    return honest_.split(members);
  }

 private:
  static void spoil(Pending& pending, std::span<std::byte> bytes) {
    pending.wait();
    bytes.back() ^= std::byte{0x40};  // of a float's exponent
  }
  Collective& honest_;
  bool lies_in_gathers_;
};

TEST(CollectiveBenchTest, EveryVerbAtEverySizeBringsWhatItMust) {
  for (const int world_size : {1, 2, 3}) {
    const auto world = make_local_world(world_size);
    run_ranks(world_size, [&](int rank) {
      int num_told = 0;
      const auto lines = bench_collectives(*world[static_cast<size_t>(rank)], kSmall,
                                           [&](const BenchLine&) { ++num_told; });
      const std::vector<int64_t> sizes = bench_sizes(kSmall.sizes, world_size);
      ASSERT_EQ(lines.size(), kBenchVerbs.size() * sizes.size());
      EXPECT_EQ(num_told, static_cast<int>(lines.size()));
      for (size_t i = 0; i < lines.size(); ++i) {
        EXPECT_EQ(lines[i].verb, kBenchVerbs[i / sizes.size()]);
        EXPECT_EQ(lines[i].num_bytes, sizes[i % sizes.size()]);
        EXPECT_GT(lines[i].seconds, 0);
        EXPECT_EQ(lines[i].num_wrong, 0) << to_string(lines[i].verb) << " " << lines[i].num_bytes;
      }
    });
  }
}

TEST(CollectiveBenchTest, AByteThatChangesOnTheWayIsCounted) {
  for (const bool lies_in_gathers : {true, false}) {
    const auto world = make_local_world(2);
    run_ranks(2, [&](int rank) {
      Collective& honest = *world[static_cast<size_t>(rank)];
      LyingCollective lying(honest, lies_in_gathers);
      Collective& used = rank == 1 ? static_cast<Collective&>(lying) : honest;
      for (const BenchLine& line : bench_collectives(used, kSmall, [](const BenchLine&) {})) {
        const bool gathers = line.verb != BenchVerb::kReduceScatter;
        const bool exchanges = line.verb != BenchVerb::kAllGather;
        if (lies_in_gathers) {
          EXPECT_EQ(line.num_wrong, gathers ? 1 : 0) << to_string(line.verb);
        } else {  // what an exchange spoilt is gathered by both
          EXPECT_EQ(line.num_wrong > 0, exchanges) << to_string(line.verb);
        }
      }
    });
  }
}

TEST(CollectiveBenchTest, ValuesOfAnotherRankOrPlaceOrNoneAreWrong) {
  const int64_t num_elems = 12;
  std::vector<float> sums(num_elems);
  std::vector<float> gathered(num_elems);
  for (int64_t i = 0; i < num_elems; ++i) {
    const auto at = static_cast<size_t>(i);
    sums[at] = bench_value(0, i) + bench_value(1, i);
    gathered[at] = bench_value(static_cast<int>(i / 6), i % 6);
  }
  EXPECT_EQ(count_wrong(BenchVerb::kAllReduce, 1, 2, sums), 0);
  EXPECT_EQ(count_wrong(BenchVerb::kAllGather, 0, 2, gathered), 0);
  const std::span<const float> second_half = std::span<const float>(sums).subspan(6);
  EXPECT_EQ(count_wrong(BenchVerb::kReduceScatter, 1, 2, second_half), 0);
  EXPECT_GT(count_wrong(BenchVerb::kReduceScatter, 0, 2, second_half), 0);
  EXPECT_GT(count_wrong(BenchVerb::kBroadcast, 0, 2, gathered), 0);
  std::rotate(gathered.begin(), gathered.begin() + 6, gathered.end());
  EXPECT_GT(count_wrong(BenchVerb::kAllGather, 0, 2, gathered), 0);
  sums[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(count_wrong(BenchVerb::kAllReduce, 1, 2, sums), 1);
}

}  // namespace
}  // namespace lockstep::runtime
