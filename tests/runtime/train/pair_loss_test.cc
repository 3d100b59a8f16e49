#include "runtime/train/pair_loss.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/token_source.h"

namespace lockstep::runtime {
namespace {

using common::PreferenceConfig;
using common::Task;
using testing::ElementsAre;
using Loss = PreferenceConfig::Loss;

constexpr int32_t kNone = kNoLabel;

// Two pairs of rows of five tokens, with room for a third; the last row has no prompt.
MicroBatch two_pairs() {
  MicroBatch batch;
  batch.samples = {4, 1};
  batch.row_tokens = 5;
  batch.tokens = {1, 2, 3, 4, 5, 1, 2, 6, 7, 0, 8, 9, 3, 3, 0,
                  8, 9, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  batch.labels = {kNone, 3,     4,     5,     kNone, kNone, 6,     7,     kNone, kNone,
                  kNone, kNone, 3,     3,     kNone, 9,     2,     kNone, kNone, kNone,
                  kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  return batch;
}

std::vector<PairTerms> all_terms() {
  const std::vector<double> reference = {-5, -4.5, -6, -3};
  const auto dpo = [&](double beta, Loss loss, double smoothing) {
    return PairTerms{.task = Task::kDpo,
                     .preference = {.beta = beta, .loss = loss, .label_smoothing = smoothing},
                     .reference = reference};
  };
  return {dpo(0.1, Loss::kSigmoid, 0),
          dpo(0.7, Loss::kSigmoid, 0.2),
          dpo(0.4, Loss::kHinge, 0),
          dpo(0.3, Loss::kIpo, 0),
          {.task = Task::kOrpo, .preference = {.beta = 0.5}, .token_weight = 0.125}};
}

// Prompt and answer of each row that has both, then what is behind the pairs.
TEST(PairLossTest, SpansAreThePromptsAndTheAnswers) {
  PairFigures figures;
  const MicroBatch batch = two_pairs();
  const PairTerms terms = all_terms().front();
  EXPECT_THAT(pair_loss(terms, batch, figures).ends, ElementsAre(1, 5, 6, 10, 12, 15, 20, 30));
}

// Bound: central differences of 1e-5 in double have about ten digits.
TEST(PairLossTest, WeightsAreTheDerivativesOfTheLoss) {
  const MicroBatch batch = two_pairs();
  const std::vector<double> sums = {0.5, 4.1, 0.25, 5.2, 1.5, 3.3, 4.4, 0};
  for (const PairTerms& terms : all_terms()) {
    PairFigures figures;
    const SpanLoss loss = pair_loss(terms, batch, figures);
    std::vector<double> weights(sums.size(), 0.0);
    loss.weigh(sums, weights);
    std::vector<double> unused(sums.size(), 0.0);
    for (std::size_t span = 0; span < sums.size(); ++span) {
      constexpr double kStep = 1e-5;
      std::vector<double> more = sums;
      std::vector<double> less = sums;
      more[span] += kStep;
      less[span] -= kStep;
      const double slope = (loss.weigh(more, unused) - loss.weigh(less, unused)) / (2 * kStep);
      EXPECT_NEAR(weights[span], slope, 1e-8)
          << "beta " << terms.preference.beta << ", span " << span;
    }
  }
}

TEST(PairLossTest, AModelThatIsItsReferenceHasNoRewards) {
  const MicroBatch batch = two_pairs();
  const PairTerms terms = all_terms().front();
  const std::vector<double> sums = {9, 5, 9, 4.5, 9, 6, 3, 0};  // minus the reference
  PairFigures figures;
  std::vector<double> weights(sums.size(), 0.0);
  EXPECT_DOUBLE_EQ(pair_loss(terms, batch, figures).weigh(sums, weights), 2 * std::log(2.0));
  EXPECT_EQ(figures.reward_chosen, 0);
  EXPECT_EQ(figures.margin(), 0);
  EXPECT_EQ(figures.accuracy, 0);
  EXPECT_EQ(figures.logps_chosen, -11);
  EXPECT_EQ(figures.logps_rejected, -7.5);
}

TEST(PairLossTest, FiguresTellWhichAnswerGained) {
  const MicroBatch batch = two_pairs();
  PairTerms terms = all_terms().front();
  terms.preference.beta = 0.5;
  const std::vector<double> sums = {0, 3, 0, 4.5,
                                    0, 6, 2, 0};  // the first pair the right way round
  PairFigures figures;
  std::vector<double> weights(sums.size(), 0.0);
  pair_loss(terms, batch, figures).weigh(sums, weights);
  EXPECT_EQ(figures.reward_chosen, 1);
  EXPECT_EQ(figures.reward_rejected, 0.5);
  EXPECT_EQ(figures.accuracy, 1);
  EXPECT_EQ(mean_of(figures, 2).margin(), 0.25);
}

// Probabilities round to 1 in fp32; at 0 odds and their slope would be infinite.
TEST(PairLossTest, OrpoStaysFiniteWhereAnAnswerIsCertain) {
  const MicroBatch batch = two_pairs();
  const PairTerms terms = all_terms().back();
  const auto weigh = [&](double chosen, double rejected) {
    PairFigures figures;
    const std::vector<double> sums = {0.5, chosen, 0.25, rejected, 1.5, 3.3, 4.4, 0};
    std::vector<double> weights(sums.size(), 0.0);
    const double loss = pair_loss(terms, batch, figures).weigh(sums, weights);
    EXPECT_TRUE(std::isfinite(loss)) << chosen << " " << rejected;
    for (const double weight : weights) {
      EXPECT_TRUE(std::isfinite(weight)) << chosen << " " << rejected;
      EXPECT_LE(std::abs(weight), 0x1p24) << chosen << " " << rejected;
    }
    return std::pair(loss, weights);
  };
  const double certain_chosen = weigh(0, 5.2).first;
  const auto [both, of_both] = weigh(0, 0);
  const auto [certain_rejected, of_rejected] = weigh(4.1, 0);
  EXPECT_NEAR(both - certain_chosen, 0.5 * std::log(2.0), 1e-3) << "neither is more likely";
  EXPECT_GT(certain_rejected, both);
  EXPECT_LT(of_rejected[3], 0) << "it still learns to be less likely";
}

TEST(PairLossTest, OrpoLearnsThePromptsOfChosenRowsToo) {
  const MicroBatch batch = two_pairs();
  const std::vector<int32_t> labels = labels_of_pairs(Task::kOrpo, batch);
  EXPECT_THAT(std::vector(labels.begin(), labels.begin() + 20),
              ElementsAre(2, 3, 4, 5, kNone, kNone, 6, 7, kNone, kNone, 9, 3, 3, 3, kNone, 9, 2,
                          kNone, kNone, kNone));
  EXPECT_EQ(labels_of_pairs(Task::kDpo, batch), batch.labels);
}

// Of two_pairs() the last tokens are in places 4, 8 - 5, 4 and 2: see their labels.
TEST(PairLossTest, TheScoreOfARowIsThatOfItsLastTokenButForPadding) {
  const MicroBatch batch = two_pairs();
  PairFigures figures;
  const auto ends_for = [&](int32_t pad_token) {
    const PairTerms terms{.task = Task::kReward, .pad_token = pad_token};
    return pair_loss(terms, batch, figures).ends;
  };
  EXPECT_THAT(ends_for(-1), ElementsAre(5, 9, 15, 18, 30));
  EXPECT_THAT(ends_for(7), ElementsAre(5, 8, 15, 18, 30)) << "7 ends the second row";
  EXPECT_THAT(ends_for(2), ElementsAre(5, 9, 15, 17, 30));
  EXPECT_THAT(labels_of_pairs(Task::kReward, batch), batch.labels);
}

TEST(PairLossTest, RewardsAreComparedAndKeptAroundZero) {
  const MicroBatch batch = two_pairs();
  const PairTerms terms{.task = Task::kReward, .preference = {.center_coefficient = 0.25}};
  const std::vector<double> scores = {1.5, -0.5, 0.25, 2, 9};
  const auto loss_of = [](double chosen, double rejected) {
    const double sum = chosen + rejected;
    return std::log1p(std::exp(rejected - chosen)) + 0.25 * sum * sum;
  };
  PairFigures figures;
  const SpanLoss loss = pair_loss(terms, batch, figures);
  std::vector<double> weights(scores.size(), 0.0);
  EXPECT_DOUBLE_EQ(loss.weigh(scores, weights), loss_of(1.5, -0.5) + loss_of(0.25, 2));
  EXPECT_EQ(figures.reward_chosen, 1.75);
  EXPECT_EQ(figures.reward_rejected, 1.5);
  EXPECT_EQ(figures.accuracy, 1);
  EXPECT_EQ(weights.back(), 0) << "what is behind the pairs";
  std::vector<double> unused(scores.size(), 0.0);
  for (std::size_t i = 0; i + 1 < scores.size(); ++i) {
    constexpr double kStep = 1e-5;
    std::vector<double> more = scores;
    std::vector<double> less = scores;
    more[i] += kStep;
    less[i] -= kStep;
    EXPECT_NEAR(weights[i], (loss.weigh(more, unused) - loss.weigh(less, unused)) / (2 * kStep),
                1e-8);
  }
}

TEST(PairLossTest, LogProbabilitiesAreThoseOfTheAnswers) {
  std::vector<double> log_probs;
  const MicroBatch batch = two_pairs();
  const SpanLoss loss = log_probs_of_pairs(batch, log_probs);
  const std::vector<double> sums = {0.5, 4, 0.25, 5, 1.5, 3, 4.5, 0};
  std::vector<double> weights(sums.size(), 0.0);
  loss.weigh(sums, weights);
  EXPECT_THAT(log_probs, ElementsAre(-4, -5, -3, -4.5));
}

// The reference is that of all data, by the numbers of the samples.
TEST(PairLossTest, ABatchTakesTheReferenceOfItsSamples) {
  const MicroBatch batch = two_pairs();
  PairFigures figures;
  const std::vector<double> reference = {0, 0, -6, -3, 0, 0, 0, 0, -5, -4.5};
  const PairBatch pairs({.task = Task::kDpo}, batch, reference, figures);
  MicroBatchIo io;
  pairs.give_to(io);
  const std::vector<double> sums = {9, 5, 9, 4.5, 9, 6, 3, 0};
  std::vector<double> weights(sums.size(), 0.0);
  EXPECT_DOUBLE_EQ(io.span_loss->weigh(sums, weights), 2 * std::log(2.0));
  EXPECT_TRUE(std::equal(batch.labels.begin(), batch.labels.end(), io.labels));
}

}  // namespace
}  // namespace lockstep::runtime
