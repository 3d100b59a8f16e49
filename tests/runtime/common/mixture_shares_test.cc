#include "runtime/common/mixture_shares.h"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::common {
namespace {

using nlohmann::json;
using testing::ElementsAre;

TEST(MixtureSharesTest, UsualWeightsAreMetExactlyByFewSamples) {
  struct Case {
    std::vector<double> weights;
    std::vector<int64_t> shares;
  };
  for (const Case& c : std::vector<Case>{{{5}, {1}},
                                         {{1, 1}, {1, 1}},
                                         {{3, 1}, {3, 1}},
                                         {{0.75, 0.25}, {3, 1}},
                                         {{0.7, 0.2, 0.1}, {7, 2, 1}},
                                         {{70, 20, 10}, {7, 2, 1}},
                                         {{1e-6, 2e-6}, {1, 2}},
                                         {{0.01, 0.99}, {1, 99}},
                                         {{1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}}}) {
    EXPECT_EQ(mixture_shares(c.weights), c.shares);
  }
}

TEST(MixtureSharesTest, OthersAreWithinOneSampleOfARound) {
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{
           {M_PI, M_E, M_SQRT2}, {1, 9999}, {1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31}}) {
    const std::vector<int64_t> shares = mixture_shares(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const auto round =
        static_cast<double>(std::accumulate(shares.begin(), shares.end(), int64_t{0}));
    EXPECT_LE(round, static_cast<double>(kMostSamplesPerRound));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_GT(shares[i], 0);
      EXPECT_LT(std::abs(static_cast<double>(shares[i]) / round - weights[i] / sum),
                1.0 / static_cast<double>(kMostSamplesPerRound));
    }
  }
}

TEST(MixtureSharesTest, OfATrainSectionAreThoseOfItsSources) {
  EXPECT_THAT(mixture_shares_of(json::object()), ElementsAre(1));
  EXPECT_THAT(mixture_shares_of({{"data", {{"train", "a"}}}}), ElementsAre(1));
  const json sources = {{{"path", "a"}, {"weight", 6}}, {{"path", "b"}, {"weight", 2.0}}};
  EXPECT_THAT(mixture_shares_of({{"data", {{"sources", sources}}}}), ElementsAre(3, 1));
}

}  // namespace
}  // namespace lockstep::common
