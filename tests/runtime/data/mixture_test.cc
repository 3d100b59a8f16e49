#include "runtime/data/mixture.h"

#include <cstdlib>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/mixture_shares.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;

std::vector<std::size_t> sources_of(const Mixture& mixture, int64_t count) {
  std::vector<std::size_t> sources;
  for (int64_t i = 0; i < count; ++i) sources.push_back(mixture.at(i).source);
  return sources;
}

TEST(MixtureTest, TurnsAreSpreadOverTheRoundAndRoundsAreAlike) {
  EXPECT_THAT(sources_of(Mixture({1}), 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(sources_of(Mixture({1, 1}), 5), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(sources_of(Mixture({3, 1}), 8), ElementsAre(0, 0, 0, 1, 0, 0, 0, 1));
  EXPECT_THAT(sources_of(Mixture({7, 2, 1}), 10), ElementsAre(0, 0, 0, 1, 0, 0, 1, 0, 0, 2));
}

// What every prefix has of a source is within one turn of its share: exactly, in whole numbers.
void expect_even(const std::vector<int64_t>& shares) {
  const Mixture mixture(shares);
  const int64_t round = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  std::vector<int64_t> had(shares.size());
  for (int64_t position = 0; position < 2 * round; ++position) {
    const Mixture::Turn turn = mixture.at(position);
    ASSERT_EQ(turn.before, had[turn.source]) << "turns of a source are counted without a gap";
    ++had[turn.source];
    for (std::size_t i = 0; i < shares.size(); ++i) {
      ASSERT_LT(std::abs(had[i] * round - (position + 1) * shares[i]), round)
          << "source " << i << " after " << position + 1;
    }
  }
  for (std::size_t i = 0; i < shares.size(); ++i) EXPECT_EQ(had[i], 2 * shares[i]);
}

TEST(MixtureTest, EveryPrefixHasItsSharesWithinOneTurn) {
  uint64_t state = 7;
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> shares;
    for (int source = 0; source <= round % 16; ++source) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      shares.push_back(1 + static_cast<int64_t>((state >> 33) % (round % 2 == 0 ? 7 : 60)));
    }
    expect_even(shares);
  }
  expect_even(common::mixture_shares({3.14159, 2.71828, 1.41421, 0.001}));
}

TEST(MixtureTest, AnyPlaceIsFoundAtOnce) {
  const Mixture mixture({2, 1});
  constexpr int64_t kFar = int64_t{3} << 40;
  EXPECT_EQ(mixture.at(kFar).source, 0U);
  EXPECT_EQ(mixture.at(kFar).before, int64_t{2} << 40);
  EXPECT_EQ(mixture.at(kFar + 2).source, 1U);
  EXPECT_EQ(mixture.at(kFar + 2).before, int64_t{1} << 40);
  EXPECT_EQ(mixture.num_sources(), 2U);
  EXPECT_DOUBLE_EQ(mixture.part_of(1), 1.0 / 3);
}

}  // namespace
}  // namespace lockstep::runtime
