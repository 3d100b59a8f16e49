#include "runtime/train/sampling.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// Logits of the probabilities 1/4, 1/2, 1/4.
const std::vector<float> kThree = {0, 0.69314718F, 0};
// Of 0.4, 0.3, 0.2, 0.1, in another order.
const std::vector<float> kFour = {-2.30258509F, -0.91629073F, -1.60943791F, -1.20397280F};

std::vector<bool> possible(const std::vector<double>& probabilities) {
  std::vector<bool> possible;
  for (const double probability : probabilities) possible.push_back(probability > 0);
  return possible;
}

TEST(SamplingTest, TemperatureZeroTakesTheFirstOfTheLikeliest) {
  EXPECT_EQ(token_probabilities(std::vector<float>{0, 3, 1, 3}, {.temperature = 0}),
            (std::vector<double>{0, 1, 0, 0}));
}

TEST(SamplingTest, ProbabilitiesAreTheSoftmaxOfWhatTheTemperatureDivides) {
  const std::vector<double> even = token_probabilities(kThree, {.temperature = 1});
  EXPECT_NEAR(even[0], 0.25, 1e-7);
  EXPECT_NEAR(even[1], 0.5, 1e-7);
  const std::vector<double> sharp = token_probabilities(kThree, {.temperature = 0.5});
  EXPECT_NEAR(sharp[1], 4.0 / 6, 1e-7);
}

TEST(SamplingTest, TopKLeavesTheLikeliestAndThoseAsLikelyAsTheLast) {
  const auto left = [](const std::vector<float>& logits, int64_t k) {
    return possible(token_probabilities(logits, {.temperature = 1, .top_k = k}));
  };
  EXPECT_EQ(left(kFour, 2), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(left(kFour, 9), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(left(kThree, 2), (std::vector<bool>{true, true, true}));
}

TEST(SamplingTest, TopPLeavesTheFewestThatReachTheSum) {
  const auto left = [](double p) {
    return possible(token_probabilities(kFour, {.temperature = 1, .top_p = p}));
  };
  EXPECT_EQ(left(0.35), (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(left(0.65), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(left(0.85), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(left(0), (std::vector<bool>{false, true, false, false}));
}

TEST(SamplingTest, TopPCountsWhatTopKHasLeft) {
  // Of 0.4 and 0.3 the first has 0.57 of the sum.
  const Sampling sampling{.temperature = 1, .top_k = 2, .top_p = 0.55};
  EXPECT_EQ(possible(token_probabilities(kFour, sampling)),
            (std::vector<bool>{false, true, false, false}));
}

TEST(SamplingTest, DrawsInProportionToTheProbabilities) {
  const std::vector<double> probabilities = {0.25, 0, 0.5, 0.25, 0};
  EXPECT_EQ(draw_token(probabilities, 0.0), 0);
  EXPECT_EQ(draw_token(probabilities, 0.24), 0);
  EXPECT_EQ(draw_token(probabilities, 0.26), 2);
  EXPECT_EQ(draw_token(probabilities, 0.74), 2);
  EXPECT_EQ(draw_token(probabilities, 0.76), 3);
}

TEST(SamplingTest, WhatIsImpossibleIsNotDrawnWhereRoundingLeavesACrumb) {
  EXPECT_EQ(draw_token(std::vector<double>{0.5, 0.4999, 0}, 0.99999), 1);
}

}  // namespace
}  // namespace lockstep::runtime
