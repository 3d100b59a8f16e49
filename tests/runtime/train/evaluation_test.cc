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
    EXPECT_EQ(stops_early(table[i].losses, table[i].patience), table[i].stops) << i;
  }
}

}  // namespace
}  // namespace lockstep::runtime
