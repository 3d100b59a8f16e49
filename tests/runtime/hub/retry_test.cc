#include "runtime/hub/retry.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using std::chrono::seconds;

TEST(RetryTest, OnlyWhatMayPassIsTriedAgain) {
  for (const int status : {0, 408, 425, 429, 500, 502, 503, 504}) {
    EXPECT_TRUE(pause_before_next(1, {.status = status})) << status;
  }
  for (const int status : {200, 400, 401, 403, 404, 416, 501}) {
    EXPECT_FALSE(pause_before_next(1, {.status = status})) << status;
  }
  EXPECT_FALSE(pause_before_next(1, {.status = 0, .may_pass = false}));
}

TEST(RetryTest, PausesDoubleUntilTheFifthTry) {
  const TryEnd cut{.status = 0};
  EXPECT_EQ(pause_before_next(0, cut), seconds(1));
  EXPECT_EQ(pause_before_next(1, cut), seconds(1));
  EXPECT_EQ(pause_before_next(2, cut), seconds(2));
  EXPECT_EQ(pause_before_next(4, cut), seconds(8));
  EXPECT_FALSE(pause_before_next(5, cut));
}

TEST(RetryTest, TheServersWishCountsUpToTenMinutes) {
  EXPECT_EQ(pause_before_next(1, {.status = 429, .retry_after = seconds(120)}), seconds(120));
  EXPECT_EQ(pause_before_next(3, {.status = 503, .retry_after = seconds(0)}), seconds(4));
  EXPECT_FALSE(pause_before_next(1, {.status = 429, .retry_after = seconds(601)}));
}

}  // namespace
}  // namespace lockstep::runtime
