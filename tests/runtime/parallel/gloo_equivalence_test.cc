// The same bits over Gloo, with ranks as threads that meet at a store.
#include <ostream>

#include <gtest/gtest.h>

#include "runtime/comm/rendezvous.h"
#include "runtime/common/choose_strategy.h"
#include "runtime/common/loopback_port.h"
#include "tests/runtime/comm/host_folders.h"
#include "tests/runtime/comm/rank_threads.h"
#include "tests/runtime/parallel/equivalence.h"

namespace lockstep::runtime {
namespace {

using common::Strategy;

void print(const common::ParallelismConfig& config, std::ostream& out) {
  out << to_string(config.strategy) << " in groups of " << config.shard_ranks << ", buckets of "
      << config.bucket_bytes << " bytes";
}

struct Case {
  int world_size;
  common::ParallelismConfig config;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.world_size << " ranks, ";
  print(c.config, *out);
}

class GlooEquivalenceTest : public testing::TestWithParam<Case> {};

TEST_P(GlooEquivalenceTest, GivesTheBitsOfOneRank) {
  const SyntheticRun run;
  std::mutex mutex;
  SyntheticResult expected = empty_result(run);
  run_rank(run, {.strategy = Strategy::kDdp}, *make_single_collective(), expected, mutex);

  SyntheticResult result = empty_result(run);
  const common::LoopbackPort port;
  run_ranks(GetParam().world_size, [&](int rank) {
    const auto collective = connect({.rank = rank,
                                     .world_size = GetParam().world_size,
                                     .master_addr = "127.0.0.1",
                                     .master_port = port.number(),
                                     .backend = common::CommunicationConfig::Backend::kGloo,
                                     .timeout = kGenerousTimeout});
    run_rank(run, GetParam().config, *collective, result, mutex);
  });
  EXPECT_EQ(result, expected);
}

SyntheticResult run_hosts(const SyntheticRun& run, const common::ParallelismConfig& config,
                          const HostFolders& hosts) {
  std::mutex mutex;
  SyntheticResult result = empty_result(run);
  const common::LoopbackPort port;
  run_ranks(hosts.num_ranks(), [&](int rank) {
    const auto collective = connect({.rank = rank,
                                     .world_size = hosts.num_ranks(),
                                     .master_addr = "127.0.0.1",
                                     .master_port = port.number(),
                                     .timeout = kGenerousTimeout,
                                     .shm_folder = hosts.of_rank(rank)});
    run_rank(run, config, *collective, result, mutex);
  });
  return result;
}

struct HostsCase {
  std::vector<int> host_of;
  common::ParallelismConfig config;
};

void PrintTo(const HostsCase& c, std::ostream* out) {
  *out << "hosts " << name_of_hosts(c.host_of) << ", ";
  print(c.config, *out);
}

class HostsEquivalenceTest : public testing::TestWithParam<HostsCase> {};

TEST_P(HostsEquivalenceTest, GivesTheBitsOfOneRank) {
  const SyntheticRun run;
  std::mutex mutex;
  SyntheticResult expected = empty_result(run);
  run_rank(run, {.strategy = Strategy::kDdp}, *make_single_collective(), expected, mutex);

  EXPECT_EQ(run_hosts(run, GetParam().config, HostFolders(GetParam().host_of)), expected);
}

// What shares memory in two levels, with every strategy; and what does not, which is a world of
// shared memory or of Gloo as in the tests of these.
std::vector<HostsCase> hosts_cases() {
  const std::vector<int> two_by_two = {0, 0, 1, 1};
  const std::vector<int> two_by_three = {0, 0, 0, 1, 1, 1};
  const std::vector<int> three_by_two = {0, 0, 1, 1, 2, 2};
  return {{two_by_two, {.strategy = Strategy::kDdp}},
          {two_by_two, {.strategy = Strategy::kZero1, .bucket_bytes = 4096}},
          {two_by_two, {.strategy = Strategy::kZero2, .bucket_bytes = 4096}},
          {two_by_two, {.strategy = Strategy::kZero3}},
          {two_by_two, {.strategy = Strategy::kZero3, .shard_ranks = 2}},
          {two_by_three, {.strategy = Strategy::kDdp}},
          {two_by_three, {.strategy = Strategy::kZero2}},
          {two_by_three, {.strategy = Strategy::kZero3, .shard_ranks = 2}},
          {three_by_two, {.strategy = Strategy::kZero1}},
          {three_by_two, {.strategy = Strategy::kZero3, .shard_ranks = 2}},
          {{0, 0, 0, 1}, {.strategy = Strategy::kDdp}},
          {{0, 0, 0, 1}, {.strategy = Strategy::kZero3}},
          {{0, 1, 2, 3}, {.strategy = Strategy::kZero2}},
          {{0, 0, 0, 0}, {.strategy = Strategy::kZero1}}};
}

INSTANTIATE_TEST_SUITE_P(Hosts, HostsEquivalenceTest, testing::ValuesIn(hosts_cases()));

// 257 is no bf16: a rank's own gradient that travels loses its last bit, a host's sum of 258 does
// not. ddp gives the sum to all ranks in bf16, which has 512 and 516 only.
TEST(Bf16BetweenHostsTest, RoundsTheSumsOfHostsAndNothingInside) {
  struct Row {
    std::vector<int> host_of;
    Strategy strategy;
    float sum;
  };
  const std::vector<int> two_hosts = {0, 0, 1, 1};
  const std::vector<int> four_hosts = {0, 1, 2, 3};
  for (const Row& row :
       {Row{two_hosts, Strategy::kZero2, 516.0F}, Row{two_hosts, Strategy::kDdp, 516.0F},
        Row{four_hosts, Strategy::kZero2, 514.0F}, Row{four_hosts, Strategy::kDdp, 512.0F}}) {
    const HostFolders hosts(row.host_of);
    const common::LoopbackPort port;
    run_ranks(4, [&](int rank) {
      const auto collective = connect({.rank = rank,
                                       .world_size = 4,
                                       .master_addr = "127.0.0.1",
                                       .master_port = port.number(),
                                       .timeout = kGenerousTimeout,
                                       .shm_folder = hosts.of_rank(rank)});
      const auto parallelism = make_parallelism({.config = {.strategy = row.strategy,
                                                            .reduction = common::Reduction::kFast,
                                                            .reduce_dtype = common::DType::kBf16},
                                                 .unit_elems = {2048},
                                                 .num_micro_batches = 4},
                                                *collective);
      std::fill_n(parallelism->gradient_buffer(0), 2048, rank % 2 == 0 ? 257.0F : 1.0F);
      parallelism->gradient_ready(0);
      parallelism->finish_backward();
      for (const float sum : parallelism->shards()[0].gradient) ASSERT_EQ(sum, row.sum);
    });
  }
}

// With a micro-batch per rank all strategies that keep slices add and round alike, however their
// gradients are parted.
TEST(Bf16BetweenHostsTest, GivesTheSameBitsUnderEveryStrategyThatShards) {
  const std::vector<int> two_by_three = {0, 0, 0, 1, 1, 1};
  const SyntheticRun run = {.num_micro_batches = 6};
  common::ParallelismConfig config = {.strategy = Strategy::kZero1,
                                      .reduction = common::Reduction::kFast,
                                      .reduce_dtype = common::DType::kBf16};
  const SyntheticResult expected = run_hosts(run, config, HostFolders(two_by_three));
  for (const Strategy strategy : {Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    config.strategy = strategy;
    config.bucket_bytes = 4096;
    EXPECT_EQ(run_hosts(run, config, HostFolders(two_by_three)), expected) << to_string(strategy);
  }
  config.reduce_dtype = common::DType::kFp32;
  EXPECT_NE(run_hosts(run, config, HostFolders(two_by_three)), expected) << "nothing was rounded";
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, GlooEquivalenceTest,
    testing::Values(
        Case{2, {.strategy = Strategy::kDdp}}, Case{3, {.strategy = Strategy::kDdp}},
        Case{4, {.strategy = Strategy::kDdp}}, Case{3, {.strategy = Strategy::kZero1}},
        Case{4, {.strategy = Strategy::kZero1}}, Case{2, {.strategy = Strategy::kZero2}},
        Case{3, {.strategy = Strategy::kZero2}}, Case{2, {.strategy = Strategy::kZero3}},
        Case{3, {.strategy = Strategy::kZero3}}, Case{4, {.strategy = Strategy::kZero3}},
        Case{4, {.strategy = Strategy::kZero3, .shard_ranks = 2}},
        Case{6, {.strategy = Strategy::kZero3, .shard_ranks = 3}}));

}  // namespace
}  // namespace lockstep::runtime
