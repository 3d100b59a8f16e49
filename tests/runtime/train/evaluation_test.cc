#include "runtime/train/evaluation.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(EvaluationTest, IsDueAtMultiplesAndAfterTheLastStep) {
  common::TrainConfig config;
  config.steps = 25;
  config.data.validation = "held-out.txt";
  const auto due_steps = [&config] {
    std::vector<int64_t> due;
    for (int64_t step = 0; step <= 25; ++step) {
      if (evaluation_is_due(config, step)) due.push_back(step);
    }
    return due;
  };
  EXPECT_EQ(due_steps(), std::vector<int64_t>{25});
  config.evaluation.every_steps = 10;
  EXPECT_EQ(due_steps(), (std::vector<int64_t>{10, 20, 25}));
  config.data.validation = "";
  EXPECT_TRUE(due_steps().empty());
  config.data.validation_fraction = 0.1;
  EXPECT_EQ(due_steps(), (std::vector<int64_t>{10, 20, 25}));
}

TEST(EvaluationTest, StopsWhenSoManyInARowAreNoBetterThanTheBestBefore) {
  struct Case {
    std::vector<double> losses;
    int64_t patience;
    bool stops;
  };
  const std::vector<Case> table = {
      {{}, 1, false},
      {{3}, 1, false},
      {{3, 3}, 1, true},  // equal is not better
      {{3, 2, 1}, 1, false},
      {{3, 2, 4}, 1, true},
      {{3, 2, 4}, 2, false},
      {{3, 2, 4, 2.5}, 2, true},  // better than the last, not than the best
      {{3, 2, 4, 1.9}, 2, false},
      {{3, 2, 4, 4, 1.9, 5}, 2, false},  // counted in a row
      {{1, 2, 3, 4, 5}, 0, false},       // off
  };
  for (std::size_t i = 0; i < table.size(); ++i) {
    EvaluationHistory history;
    for (const double loss : table[i].losses) {
      history = with_evaluation(history, history.last_step + 5, loss);
    }
    EXPECT_EQ(stops_early(history, table[i].patience), table[i].stops) << i;
  }
}

TEST(EvaluationTest, TheBestIsTheEarliestOfTheLowestLosses) {
  EvaluationHistory history;
  const std::vector<double> losses = {3, 2, 2.5, 2, 1.5, 1.5, 1.75};
  std::vector<int64_t> best;
  for (const double loss : losses) {
    history = with_evaluation(history, history.last_step + 5, loss);
    best.push_back(history.best_step);
  }
  EXPECT_EQ(best, (std::vector<int64_t>{5, 10, 10, 10, 25, 25, 25}));
  EXPECT_EQ(history.best_loss, 1.5);
  EXPECT_EQ(history.without_better, 2);
  history.best_step = 0;  // its checkpoint is gone: the losses are compared with it all the same
  EXPECT_EQ(with_evaluation(history, 40, 1.6).best_step, 0);
  EXPECT_EQ(with_evaluation(history, 40, 1.4).best_step, 40);
}

}  // namespace
}  // namespace lockstep::runtime
