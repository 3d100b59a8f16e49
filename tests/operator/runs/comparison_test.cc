#include "operator/runs/comparison.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runs {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RunRecord run_with(std::vector<Point> losses) {
  RunRecord run;
  run.folder = "runs/x";
  run.series["loss"] = std::move(losses);
  run.train = {{"seed", 42}, {"optimizer", {{"lr", 0.1}}}};
  return run;
}

TEST(ComparisonTest, FindsTheFirstDifferenceAndTheLargest) {
  const struct {
    const char* name;
    std::vector<Point> a, b;
    int64_t num_common, first, largest_step;  // first 0: none
    double largest;
  } cases[] = {
      {"same bits", {{1, 5}, {2, 4}}, {{1, 5}, {2, 4}}, 2, 0, 0, 0},
      {"one step", {{1, 5}, {2, 4}, {3, 3}}, {{1, 5}, {2, 8}, {3, 4}}, 3, 2, 2, 0.5},
      {"larger later", {{1, 5}, {2, 1}}, {{1, 4}, {2, 4}}, 2, 1, 2, 0.75},
      {"the last digit",
       {{1, 1.0}},
       {{1, std::nextafter(1.0, 2)}},
       1,
       1,
       1,
       0x1p-52 / (1 + 0x1p-52)},
      {"other steps", {{1, 5}, {3, 4}}, {{2, 5}, {3, 4}, {5, 1}}, 1, 0, 0, 0},
      {"against zero", {{1, 2}}, {{1, 0}}, 1, 1, 1, HUGE_VAL},
      {"nothing", {}, {{1, 2}}, 0, 0, 0, 0},
  };
  for (const auto& one : cases) {
    const Comparison comparison = compare_runs(run_with(one.a), run_with(one.b));
    const SeriesComparison& loss = comparison.series.front();
    EXPECT_EQ(loss.num_common, one.num_common) << one.name;
    EXPECT_EQ(loss.first_difference.value_or(0), one.first) << one.name;
    EXPECT_EQ(loss.largest_relative, one.largest) << one.name;
    EXPECT_EQ(loss.largest_step, one.largest_step) << one.name;
    EXPECT_EQ(differ(comparison), one.first != 0) << one.name;
    EXPECT_EQ(has_common_ground(comparison), one.num_common > 0) << one.name;
  }
}

TEST(ComparisonTest, CountsStepsThatOneRunLacks) {
  const Comparison comparison =
      compare_runs(run_with({{1, 5}, {3, 4}}), run_with({{2, 5}, {3, 4}, {5, 1}}));
  EXPECT_EQ(comparison.series.front().num_only_a, 1);
  EXPECT_EQ(comparison.series.front().num_only_b, 2);
  EXPECT_THAT(render(comparison), HasSubstr("1 only in a, 2 only in b"));
}

TEST(ComparisonTest, ListsFieldsThatAreSetOtherwise) {
  RunRecord a = run_with({{1, 5}});
  RunRecord b = a;
  EXPECT_THAT(compare_runs(a, b).fields, IsEmpty());
  a.ranks = 1;
  b.ranks = 4;
  b.train["optimizer"]["lr"] = 0.2;
  b.train["extra"] = "x";
  a.train["optimizer"]["eps"] = 1;
  a.hub_commits = {{"hf://org/name@main", "0a"}, {"hf://org/same@main", "1b"}};
  b.hub_commits = {{"hf://org/name@main", "2c"}, {"hf://org/same@main", "1b"}};
  const Comparison comparison = compare_runs(a, b);
  const std::string text = render(comparison);
  EXPECT_THAT(text, HasSubstr("  ranks: 1 | 4\n"));
  EXPECT_THAT(text, HasSubstr("  train.optimizer.lr: 0.1 | 0.2\n"));
  EXPECT_THAT(text, HasSubstr("  train.optimizer.eps: 1 | (absent)\n"));
  EXPECT_THAT(text, HasSubstr("  train.extra: (absent) | \"x\"\n"));
  EXPECT_THAT(text, HasSubstr("  commit of hf://org/name@main: 0a | 2c\n"));
  EXPECT_THAT(text, Not(HasSubstr("org/same")));
  EXPECT_THAT(text, Not(HasSubstr("seed")));
  EXPECT_FALSE(differ(comparison)) << "a configuration is no result";
}

TEST(ComparisonTest, WeightsCountAsWellAsLosses) {
  Comparison comparison = compare_runs(run_with({}), run_with({}));
  EXPECT_FALSE(has_common_ground(comparison));
  comparison.weights = WeightsComparison{.num_tensors = 3};
  EXPECT_TRUE(has_common_ground(comparison));
  EXPECT_FALSE(differ(comparison));
  EXPECT_THAT(render(comparison), HasSubstr("same bits in 3 tensors"));
  comparison.weights->other_bits = {"lm_head.weight"};
  EXPECT_TRUE(differ(comparison));
  EXPECT_THAT(render(comparison), HasSubstr("1 with other bits: lm_head.weight\n"));
}

TEST(ComparisonTest, SaysWhyWeightsWereNotCompared) {
  Comparison comparison = compare_runs(run_with({{1, 5}}), run_with({{1, 5}}));
  comparison.why_no_weights = "runs/x/model has no *.safetensors";
  EXPECT_THAT(render(comparison), HasSubstr("not compared: runs/x/model has no *.safetensors"));
}

TEST(ComparisonTest, TellsMachinesTheSame) {
  RunRecord a = run_with({{1, 5}});
  RunRecord b = run_with({{1, 4}});
  a.series["tokens_per_second"] = {{1, 100}};
  const nlohmann::json told = to_json(compare_runs(a, b));
  EXPECT_EQ(told["differ"], true);
  EXPECT_EQ(told["series"][0]["key"], "loss");
  EXPECT_EQ(told["series"][0]["firstDifferentStep"], 1);
  EXPECT_EQ(told["series"][0]["largestRelativeDifference"], 0.25);
  EXPECT_EQ(told["tokensPerSecond"]["a"], 100);
  EXPECT_TRUE(told["tokensPerSecond"]["b"].is_null());
  EXPECT_TRUE(told["weights"].is_null());
}

}  // namespace
}  // namespace lockstep::runs
