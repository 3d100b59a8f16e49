#include "operator/plan/heartbeat.h"

#include <gtest/gtest.h>

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

const Heartbeat::Clock::time_point kBegin{seconds(1000)};

common::JobProgress told(double age) {
  common::JobProgress progress;
  progress.step = 9;
  progress.age_seconds = age;
  return progress;
}

TEST(HeartbeatTest, AgeGrowsFromWhatTheRankTold) {
  Heartbeat heartbeat(kBegin);
  EXPECT_FALSE(heartbeat.pulse(3, kBegin).has_value());
  heartbeat.answered(told(2.5), kBegin + seconds(10));
  const std::optional<Pulse> pulse = heartbeat.pulse(3, kBegin + seconds(14));
  ASSERT_TRUE(pulse.has_value());
  EXPECT_EQ(pulse->rank, 3);
  EXPECT_EQ(pulse->step, 9);
  EXPECT_EQ(pulse->age, seconds(6));
  EXPECT_EQ(pulse->told, seconds(2));
}

TEST(HeartbeatTest, OneMissedAnswerIsNoSilence) {
  Heartbeat heartbeat(kBegin);
  heartbeat.answered(told(1), kBegin);
  heartbeat.missed();
  EXPECT_TRUE(heartbeat.pulse(0, kBegin)->age.has_value());
  heartbeat.missed();
  EXPECT_FALSE(heartbeat.pulse(0, kBegin)->age.has_value());
  EXPECT_EQ(heartbeat.idle(kBegin + seconds(30)), seconds(30));
  heartbeat.answered(told(0), kBegin + seconds(40));
  EXPECT_EQ(heartbeat.pulse(0, kBegin + seconds(40))->age, seconds(0));
}

TEST(HeartbeatTest, RankThatNeverAnsweredIsSilentSinceItWasAskedFirst) {
  Heartbeat heartbeat(kBegin);
  heartbeat.missed();
  heartbeat.missed();
  EXPECT_EQ(heartbeat.idle(kBegin + seconds(7)), seconds(7));
  EXPECT_FALSE(heartbeat.pulse(1, kBegin + seconds(7))->age.has_value());
}

TEST(HeartbeatTest, AgeInTheListOfRanksIsAsGood) {
  common::JobProgress progress;
  progress.rank = 1;
  progress.ranks = {{.rank = 0, .age_seconds = 99}, {.rank = 1, .age_seconds = 5}};
  Heartbeat heartbeat(kBegin);
  heartbeat.answered(progress, kBegin);
  EXPECT_EQ(heartbeat.pulse(1, kBegin)->age, seconds(5));
}

TEST(HeartbeatTest, AnswerWithoutAnAgeProvesNothing) {
  Heartbeat heartbeat(kBegin);
  heartbeat.answered(common::JobProgress{}, kBegin);
  EXPECT_FALSE(heartbeat.pulse(1, kBegin + seconds(500)).has_value());
}

}  // namespace
}  // namespace lockstep::plan
