// The same bits over Gloo, with ranks as threads that meet at a store.
#include <gtest/gtest.h>

#include "runtime/comm/rendezvous.h"
#include "tests/runtime/comm/free_port.h"
#include "tests/runtime/comm/host_folders.h"
#include "tests/runtime/comm/rank_threads.h"
#include "tests/runtime/parallel/equivalence.h"

namespace lockstep::runtime {
namespace {

using common::Strategy;

struct Case {
  int world_size;
  common::ParallelismConfig config;
};

class GlooEquivalenceTest : public testing::TestWithParam<Case> {};

TEST_P(GlooEquivalenceTest, GivesTheBitsOfOneRank) {
  const SyntheticRun run;
  std::mutex mutex;
  SyntheticResult expected = empty_result(run);
  run_rank(run, {.strategy = Strategy::kDdp}, *make_single_collective(), expected, mutex);

  SyntheticResult result = empty_result(run);
  const int port = free_port();
  run_ranks(GetParam().world_size, [&](int rank) {
    const auto collective = connect({.rank = rank,
                                     .world_size = GetParam().world_size,
                                     .master_addr = "127.0.0.1",
                                     .master_port = port,
                                     .backend = common::CommunicationConfig::Backend::kGloo,
                                     .timeout = kGenerousTimeout});
    run_rank(run, GetParam().config, *collective, result, mutex);
  });
  EXPECT_EQ(result, expected);
}

struct HostsCase {
  std::vector<int> host_of;
  common::ParallelismConfig config;
};

class HostsEquivalenceTest : public testing::TestWithParam<HostsCase> {};

TEST_P(HostsEquivalenceTest, GivesTheBitsOfOneRank) {
  const SyntheticRun run;
  std::mutex mutex;
  SyntheticResult expected = empty_result(run);
  run_rank(run, {.strategy = Strategy::kDdp}, *make_single_collective(), expected, mutex);

  const HostFolders hosts(GetParam().host_of);
  SyntheticResult result = empty_result(run);
  const int port = free_port();
  run_ranks(hosts.num_ranks(), [&](int rank) {
    const auto collective = connect({.rank = rank,
                                     .world_size = hosts.num_ranks(),
                                     .master_addr = "127.0.0.1",
                                     .master_port = port,
                                     .timeout = kGenerousTimeout,
                                     .shm_folder = hosts.of_rank(rank)});
    run_rank(run, GetParam().config, *collective, result, mutex);
  });
  EXPECT_EQ(result, expected);
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
