// The same bits over Gloo, with ranks as threads that meet at a store.
#include <gtest/gtest.h>

#include "runtime/comm/rendezvous.h"
#include "tests/runtime/comm/free_port.h"
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
