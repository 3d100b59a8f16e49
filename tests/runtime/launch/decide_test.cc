#include "runtime/launch/decide.h"

#include <gtest/gtest.h>

namespace lockstep::launch {
namespace {

using common::ExitCode;
using common::TerminationMessage;
using std::chrono::seconds;

const Clock::time_point kNow = Clock::time_point(seconds(1000));

RankEnd ended(int exit_code, seconds at = seconds(0)) {
  return {.exit_code = exit_code, .at = kNow + at};
}

// An end that the rank gave its reason for.
RankEnd told(ExitCode code, seconds at = seconds(0)) {
  RankEnd end = ended(static_cast<int>(code), at);
  end.told = TerminationMessage{.rank = 0, .reason = std::string(common::reason_of(code))};
  return end;
}

RankEnd forced(int exit_code, seconds at = seconds(0)) {
  RankEnd end = ended(exit_code, at);
  end.is_forced = true;
  return end;
}

TEST(DecideTest, TheFirstFailureThatIsNotOnlyALostPeerIsTheCause) {
  const struct {
    const char* name;
    std::vector<std::optional<RankEnd>> ends;
    std::optional<std::size_t> cause;
  } table[] = {
      {"all succeeded", {ended(0), ended(0)}, {}},
      {"one failed", {ended(0), ended(1)}, 1},
      {"the earlier one", {ended(1, seconds(2)), ended(137, seconds(1))}, 1},
      {"at the same time the lower one", {ended(137), ended(1)}, 0},
      {"not a lost peer", {told(ExitCode::kPeerLost), ended(137, seconds(5))}, 1},
      {"a lost peer if there is nothing else", {ended(0), told(ExitCode::kPeerLost)}, 1},
      {"83 of a program of one's own", {ended(83), ended(1, seconds(1))}, 0},
      {"83 with other words", {told(ExitCode::kInternal), ended(1, seconds(1))}, 0},
      {"not one that was told to end", {forced(1), ended(1, seconds(1))}, 1},
      {"a lost peer before one that was told", {forced(143), told(ExitCode::kPeerLost)}, 1},
      {"a stop in good order", {told(ExitCode::kPreempted), told(ExitCode::kPeerLost)}, 0},
  };
  for (const auto& row : table) {
    const Decision decision = decide({.ends = row.ends}, kNow);
    EXPECT_EQ(decision.move, Move::kExit) << row.name;
    EXPECT_EQ(decision.cause, row.cause) << row.name;
  }
}

TEST(DecideTest, RanksThatRunAndThoseThatSucceededAreWaitedForWithoutALimit) {
  const Decision decision = decide({.ends = {ended(0), std::nullopt}}, kNow + seconds(1 << 20));
  EXPECT_EQ(decision.move, Move::kWait);
  EXPECT_FALSE(decision.wake);
  EXPECT_FALSE(decision.cause);
}

TEST(DecideTest, OthersAreEndedWhenThereIsNothingMoreToWaitFor) {
  const Clock::time_point stop = kNow - seconds(7);
  const struct {
    const char* name;
    RankEnd end;
    std::optional<Clock::time_point> stop_asked;
    Clock::time_point limit;
  } table[] = {
      {"a failure at once", ended(1), {}, kNow},
      {"a lost peer may not be the cause", told(ExitCode::kPeerLost), {}, kNow + kCauseDelay},
      {"a stop in good order", told(ExitCode::kPreempted), {}, kNow + seconds(120)},
      {"while all stop, whatever one does", ended(143), stop, stop + seconds(120)},
      {"while all stop, a lost peer too", told(ExitCode::kPeerLost), stop, stop + seconds(120)},
  };
  for (const auto& row : table) {
    const Gang gang = {
        .ends = {std::nullopt, row.end}, .grace = seconds(120), .stop_asked = row.stop_asked};
    const Decision at_limit = decide(gang, row.limit);
    EXPECT_EQ(at_limit.move, Move::kEndOthers) << row.name;
    EXPECT_EQ(at_limit.cause, 1u) << row.name;
    const Decision before = decide(gang, row.limit - std::chrono::milliseconds(1));
    if (row.limit == kNow) continue;
    EXPECT_EQ(before.move, Move::kWait) << row.name;
    EXPECT_EQ(before.wake, row.limit) << row.name;
  }
}

TEST(DecideTest, AStopLeavesTimeToEndWhoHangsBeforeThePodIsKilled) {
  EXPECT_EQ(stop_time(seconds(135)) + kEndPatience + kKillPatience, seconds(135));
  EXPECT_EQ(stop_time(seconds(3)), seconds(1));
}

TEST(DecideTest, OthersThatDoNotEndAreKilledAndLeftInTheEnd) {
  const Gang gang = {.ends = {ended(1), std::nullopt}, .ending_since = kNow};
  const auto moves = [&](seconds after) { return decide(gang, kNow + after); };
  EXPECT_EQ(moves(seconds(0)).move, Move::kWait);
  EXPECT_EQ(moves(seconds(0)).wake, kNow + kEndPatience);
  EXPECT_EQ(moves(kEndPatience).move, Move::kKillOthers);
  EXPECT_EQ(moves(kEndPatience).wake, kNow + kEndPatience + kKillPatience);
  EXPECT_EQ(moves(kEndPatience + kKillPatience).move, Move::kExit);
  EXPECT_EQ(moves(kEndPatience + kKillPatience).cause, 0u);
}

TEST(DecideTest, LastWordsAreTheRanksOwnOrSayHowItEnded) {
  RankEnd end = told(ExitCode::kNonFinite);
  end.told->rank = 5;
  end.told->step = 12;
  EXPECT_EQ(last_words(end, 5, "noise").reason, "NonFinite");
  EXPECT_EQ(last_words(end, 5, "noise").step, 12);
  const TerminationMessage killed = last_words(ended(137), 3, "");
  EXPECT_EQ(killed.rank, 3);
  EXPECT_EQ(killed.reason, "ExitCode137");
  EXPECT_EQ(killed.message, "ended by signal 9");
  EXPECT_EQ(last_words(ended(2), 0, "no such file").message,
            "exit code 2; last line: no such file");
}

}  // namespace
}  // namespace lockstep::launch
