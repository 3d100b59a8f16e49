#include "runtime/parallel/reduction_tree.h"

#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "runtime/parallel/shard_layout.h"

namespace lockstep::runtime {
namespace {

std::string add(const std::string& left, const std::string& right) {
  return "(" + left + "+" + right + ")";
}

// Note [The tree], literally.
std::string tree_of(std::span<const std::string> leaves) {
  if (leaves.size() == 1) return leaves[0];
  const size_t left = std::bit_floor(leaves.size() - 1);
  return add(tree_of(leaves.first(left)), tree_of(leaves.subspan(left)));
}

std::vector<std::string> names_of(const std::vector<int64_t>& micro_batches) {
  std::vector<std::string> names;
  for (const int64_t index : micro_batches) names.push_back(std::to_string(index));
  return names;
}

// What a plan computes, as an expression: roots inside ranks, additions over them, exchanges.
std::string evaluate(const ReductionPlan& plan) {
  const auto ranks = static_cast<size_t>(plan.world_size);
  std::vector<size_t> used(ranks);
  std::vector<std::string> exchanges;
  for (int64_t exchange = 0; exchange < plan.num_exchanges; ++exchange) {
    std::vector<std::string> values(static_cast<size_t>(plan.num_rounds) * ranks);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const std::vector<std::string> names = names_of(plan.micro_batches[rank]);
      const std::vector<int64_t>& roots = plan.root_leaves[rank];
      for (size_t round = 0; round < roots.size(); ++round) {
        const auto leaves = static_cast<size_t>(roots[round]);
        values[round * ranks + rank] = tree_of(std::span(names).subspan(used[rank], leaves));
        used[rank] += leaves;
      }
    }
    for (const Addition& addition : plan.additions) {
      std::string& target = values[static_cast<size_t>(addition.target)];
      target = add(target, values[static_cast<size_t>(addition.source)]);
    }
    exchanges.push_back(values[0]);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(used[rank], plan.micro_batches[rank].size());
  }
  return tree_of(exchanges);
}

TEST(ReductionTreeTest, EveryPlanComputesTheSameExpression) {
  int plans = 0;
  for (int64_t m = 1; m <= 64; ++m) {
    std::vector<int64_t> all(static_cast<size_t>(m));
    std::iota(all.begin(), all.end(), 0);
    const std::string expected = tree_of(names_of(all));
    for (int w = 1; w <= m; ++w) {
      if (m % w != 0) continue;
      for (const Assignment assignment : {Assignment::kContiguous, Assignment::kInterleaved}) {
        if (assignment == Assignment::kInterleaved && !std::has_single_bit(unsigned(w))) continue;
        EXPECT_EQ(evaluate(plan_reduction(m, w, assignment)), expected) << m << " over " << w;
        ++plans;
      }
    }
  }
  EXPECT_GT(plans, 300);
}

// What a plan computes in two levels.
std::string evaluate_by_hosts(const ReductionPlan& plan, const HostReduction& hosts) {
  const auto per_host = static_cast<size_t>(hosts.ranks_per_host);
  const size_t num_hosts = static_cast<size_t>(plan.world_size) / per_host;
  std::vector<size_t> used(static_cast<size_t>(plan.world_size));
  std::vector<std::string> exchanges;
  for (int64_t exchange = 0; exchange < plan.num_exchanges; ++exchange) {
    std::vector<std::string> across(static_cast<size_t>(hosts.num_rounds) * num_hosts);
    for (size_t host = 0; host < num_hosts; ++host) {
      std::vector<std::string> inside(static_cast<size_t>(plan.num_rounds) * per_host);
      for (size_t place = 0; place < per_host; ++place) {
        const size_t rank = host * per_host + place;
        const std::vector<std::string> names = names_of(plan.micro_batches[rank]);
        for (size_t round = 0; round < plan.root_leaves[rank].size(); ++round) {
          const auto leaves = static_cast<size_t>(plan.root_leaves[rank][round]);
          inside[round * per_host + place] = tree_of(std::span(names).subspan(used[rank], leaves));
          used[rank] += leaves;
        }
      }
      for (const Addition& addition : hosts.inside[host]) {
        std::string& target = inside[static_cast<size_t>(addition.target)];
        target = add(target, inside[static_cast<size_t>(addition.source)]);
      }
      for (size_t root = 0; root < hosts.roots[host].size(); ++root) {
        across[root * num_hosts + host] = inside[static_cast<size_t>(hosts.roots[host][root])];
      }
    }
    for (const Addition& addition : hosts.across) {
      std::string& target = across[static_cast<size_t>(addition.target)];
      target = add(target, across[static_cast<size_t>(addition.source)]);
    }
    exchanges.push_back(across[0]);
  }
  return tree_of(exchanges);
}

TEST(ReductionTreeTest, EveryGroupingComputesTheSameExpressionAndSendsLess) {
  int groupings = 0;
  for (int64_t m = 1; m <= 48; ++m) {
    for (int w = 2; w <= m; ++w) {
      if (m % w != 0) continue;
      for (const Assignment assignment : {Assignment::kContiguous, Assignment::kInterleaved}) {
        if (assignment == Assignment::kInterleaved && !std::has_single_bit(unsigned(w))) continue;
        const ReductionPlan plan = plan_reduction(m, w, assignment);
        for (int per_host = 1; per_host <= w; ++per_host) {
          if (w % per_host != 0) continue;
          const auto hosts = plan_host_reduction(plan, per_host);
          if (!hosts) continue;
          EXPECT_EQ(evaluate_by_hosts(plan, *hosts), evaluate(plan))
              << m << " over " << w << " on hosts of " << per_host;
          EXPECT_LT(hosts->num_rounds, plan.num_rounds * per_host);
          ++groupings;
        }
      }
    }
  }
  EXPECT_GT(groupings, 150);
}

TEST(ReductionTreeTest, AHostSendsOneRootWhereItHoldsAPowerOfTwo) {
  struct Row {
    int64_t micro_batches;
    int ranks;
    int per_host;
    int64_t rounds;  // 0 = no levels
  };
  for (const Row& row : std::vector<Row>{{4, 4, 2, 1},
                                         {32, 8, 4, 1},
                                         {24, 8, 4, 2},  // 12 leaves per host: 8 and 4
                                         {6, 6, 3, 2},
                                         {4, 4, 1, 0},
                                         {4, 4, 4, 0}}) {
    const auto hosts = plan_host_reduction(
        plan_reduction(row.micro_batches, row.ranks, Assignment::kContiguous), row.per_host);
    ASSERT_EQ(hosts.has_value(), row.rounds > 0) << row.ranks << " by " << row.per_host;
    if (!hosts) continue;
    EXPECT_EQ(hosts->num_rounds, row.rounds) << row.ranks << " by " << row.per_host;
  }
}

TEST(ReductionTreeTest, InRunningOrderTheRanksOfAHostAreAddedFirst) {
  const auto hosts =
      plan_host_reduction(plan_reduction(8, 4, Assignment::kContiguous, SumOrder::kRunning), 2);
  ASSERT_TRUE(hosts);
  EXPECT_EQ(hosts->num_rounds, 1);
  for (const auto& additions : {hosts->inside[0], hosts->inside[1], hosts->across}) {
    ASSERT_EQ(additions.size(), 1u);
    EXPECT_EQ(additions[0].target, 0);
    EXPECT_EQ(additions[0].source, 1);
  }
}

TEST(ReductionTreeTest, OneRootPerRankWhenEachHasAPowerOfTwo) {
  EXPECT_EQ(plan_reduction(32, 4, Assignment::kContiguous).num_rounds, 1);
  EXPECT_EQ(plan_reduction(32, 4, Assignment::kInterleaved).num_rounds, 1);
  EXPECT_GT(plan_reduction(12, 4, Assignment::kContiguous).num_rounds, 1);
}

TEST(ReductionTreeTest, AssignsMicroBatchesAsNamed) {
  const auto contiguous = plan_reduction(8, 2, Assignment::kContiguous);
  EXPECT_EQ(contiguous.micro_batches[1], (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(contiguous.num_exchanges, 1);
  const auto interleaved = plan_reduction(8, 2, Assignment::kInterleaved);
  EXPECT_EQ(interleaved.micro_batches[1], (std::vector<int64_t>{1, 3, 5, 7}));
  EXPECT_EQ(interleaved.num_exchanges, 4);
}

TEST(ReductionTreeTest, RunningOrderAddsRankAfterRankInOneRound) {
  const auto contiguous = plan_reduction(12, 3, Assignment::kContiguous, SumOrder::kRunning);
  EXPECT_EQ(contiguous.num_rounds, 1);
  EXPECT_EQ(contiguous.root_leaves, (std::vector<std::vector<int64_t>>(3, {4})));
  ASSERT_EQ(contiguous.additions.size(), 2U);
  EXPECT_EQ(contiguous.additions[0].source, 1);
  EXPECT_EQ(contiguous.additions[1].source, 2);
  EXPECT_EQ(contiguous.additions[1].target, 0);
  const auto interleaved = plan_reduction(12, 3, Assignment::kInterleaved, SumOrder::kRunning);
  EXPECT_EQ(interleaved.num_exchanges, 4);
  EXPECT_EQ(interleaved.root_leaves, (std::vector<std::vector<int64_t>>(3, {1})));
}

TEST(ReductionTreeTest, RefusesWhatItCannotHonour) {
  EXPECT_THROW(plan_reduction(8, 3, Assignment::kContiguous), std::invalid_argument);
  EXPECT_THROW(plan_reduction(9, 3, Assignment::kInterleaved), std::invalid_argument);
  EXPECT_THROW(plan_reduction(0, 1, Assignment::kContiguous), std::invalid_argument);
}

TEST(ShardLayoutTest, SlicesTileTheUnitOnChunkBoundaries) {
  constexpr int64_t kChunk = 1024;
  for (const int64_t elems : {0L, 1L, 1023L, 1024L, 1025L, 5000L, 100000L}) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      const UnitSlices layout = plan_unit(elems, ranks);
      EXPECT_EQ(layout.slice_elems % kChunk, 0);
      EXPECT_EQ(layout.padded_elems, layout.slice_elems * ranks);
      int64_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ElemRange owned = layout.slices(rank, 1);
        EXPECT_EQ(owned.begin_elem, end);
        EXPECT_LE(owned.num_elems(), layout.slice_elems);
        end = owned.end_elem;
      }
      EXPECT_EQ(end, elems);
    }
  }
}

// See Note [Groups of ranks].
TEST(ShardLayoutTest, GroupsOwnEverySliceOnceAndKeepEverySliceOncePerGroup) {
  for (const auto& [world_size, shard_ranks] :
       std::vector<std::pair<int, int>>{{4, 4}, {4, 2}, {6, 3}, {6, 2}, {8, 4}, {8, 1}}) {
    std::vector<int> owners(static_cast<size_t>(world_size));
    std::vector<int> keepers(static_cast<size_t>(world_size));
    for (int rank = 0; rank < world_size; ++rank) {
      const Placement placement = {rank, world_size, shard_ranks};
      ++owners[static_cast<size_t>(placement.owned(rank))];
      const int first = placement.first_kept();
      EXPECT_GE(placement.owned(rank), first);
      EXPECT_LT(placement.owned(rank), first + placement.num_groups());
      for (int slice = first; slice < first + placement.num_groups(); ++slice) {
        ++keepers[static_cast<size_t>(slice)];
      }
    }
    EXPECT_EQ(owners, std::vector<int>(static_cast<size_t>(world_size), 1));
    EXPECT_EQ(keepers, std::vector<int>(static_cast<size_t>(world_size), world_size / shard_ranks));
  }
}

}  // namespace
}  // namespace lockstep::runtime
