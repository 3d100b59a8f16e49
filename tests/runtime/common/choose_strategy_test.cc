#include "runtime/common/choose_strategy.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

TEST(ChooseStrategyTest, FollowsTheTable) {
  struct Row {
    Strategy wanted;
    StrategyFacts facts;
    Strategy expected;
    std::string reason;  // a part of it
  };
  const std::vector<Row> rows = {
      {Strategy::kDdp, {1, 4, 1}, Strategy::kDdp, "as the job asks"},
      {Strategy::kZero3, {1, 1, 0}, Strategy::kZero3, "as the job asks"},
      {Strategy::kAuto, {1 << 20, 1, 1}, Strategy::kDdp, "one rank"},
      {Strategy::kAuto, {1 << 20, 2, 0}, Strategy::kDdp, "unknown"},
      {Strategy::kAuto, {1 << 20, 2, 32 << 20}, Strategy::kDdp, "fits in half"},
      {Strategy::kAuto, {1 << 20, 2, (32 << 20) - 2}, Strategy::kZero3, "8.0 MiB each"},
  };
  for (const Row& row : rows) {
    const StrategyChoice choice = choose_strategy(row.wanted, row.facts);
    EXPECT_EQ(choice.strategy, row.expected) << choice.reason;
    EXPECT_NE(choice.reason.find(row.reason), std::string::npos) << choice.reason;
  }
}

}  // namespace
}  // namespace lockstep::common
