#include "runtime/comm/standing.h"

#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/comm/collective.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

// A board on which the test has written.
class WrittenBoard final : public StandingBoard {
 public:
  explicit WrittenBoard(std::vector<std::optional<Standing>> standings)
      : standings_(std::move(standings)), presences(standings_.size(), Presence::kThere) {}

  int rank() const override { return 0; }
  int world_size() const override { return static_cast<int>(standings_.size()); }
  int name(int rank) const override { return rank; }
  void post(const Standing& standing) override { standings_[0] = standing; }
  void learn(int rank, const Standing& standing) override {
    standings_[static_cast<std::size_t>(rank)] = standing;
  }
  std::optional<Standing> read(int rank) const override {
    return standings_[static_cast<std::size_t>(rank)];
  }
  Presence presence(int rank) const override { return presences[static_cast<std::size_t>(rank)]; }
  std::optional<Verdict> accuse(const Verdict& verdict) override {
    const std::optional<Verdict> before = verdict_;
    if (!verdict_) verdict_ = verdict;
    return before;
  }
  std::optional<Verdict> verdict() const override { return verdict_; }

 private:
  std::vector<std::optional<Standing>> standings_;
  std::optional<Verdict> verdict_;

 public:
  std::vector<Presence> presences;
};

Standing at(uint64_t sequence, std::string_view what = "unit 0", int64_t step = 1) {
  return make_standing(sequence, step, Verb::kAllGather, 64, what);
}

TEST(StandingTest, EveryPartOfACollectiveTellsItApart) {
  const Standing standing = at(5);
  Standing past = standing;
  past.is_past = 1;
  EXPECT_EQ(fingerprint(past), fingerprint(standing));
  for (const Standing& other : {at(6), at(5, "unit 1"), at(5, "unit 0", 2),
                                make_standing(5, 1, Verb::kAllToAll, 64, "unit 0"),
                                make_standing(5, 1, Verb::kAllGather, 65, "unit 0")}) {
    EXPECT_NE(fingerprint(other), fingerprint(standing)) << name_of(other);
  }
}

TEST(StandingTest, ALongNameIsCut) {
  EXPECT_EQ(name_of(at(1, std::string(200, 'x'))), "all_gather of " + std::string(63, 'x'));
}

TEST(StandingTest, TheMinorityDiverges) {
  const Standing a = at(5);
  const Standing b = at(5, "unit 1");
  const std::vector<std::pair<std::vector<Standing>, std::optional<int>>> table = {
      {{a}, std::nullopt}, {{a, a, a}, std::nullopt}, {{a, b}, 1},      {{a, a, b}, 2},
      {{b, a, a}, 0},      {{a, b, a, b}, 1},         {{a, a, b, b}, 2}};
  for (std::size_t row = 0; row < table.size(); ++row) {
    EXPECT_EQ(find_divergent(table[row].first), table[row].second) << "row " << row;
  }
}

TEST(StandingTest, ATimeoutIsBlamedOnWhoIsFurthestBehindThenOnTheSilentThenOnTheAwaited) {
  WrittenBoard behind({at(5), at(5), at(4), at(3)});
  EXPECT_EQ(late_verdict(behind, 5, 1).culprit, 3) << "rank 2 may wait for it";
  WrittenBoard alike({at(5), at(4), at(4), at(4)});
  EXPECT_EQ(late_verdict(alike, 5, -1).culprit, 1);
  alike.presences[2] = Presence::kSilent;
  EXPECT_EQ(late_verdict(alike, 5, -1).culprit, 2);
  WrittenBoard all_in({at(5), at(5), at(5)});
  EXPECT_EQ(late_verdict(all_in, 5, 1).culprit, 1);
  all_in.presences[2] = Presence::kSilent;
  EXPECT_EQ(late_verdict(all_in, 5, 1).culprit, 2);
  EXPECT_EQ(late_verdict(WrittenBoard({at(5), std::nullopt}), 5, -1).culprit, -1);
}

TEST(StandingTest, ARankThatMayWaitForOneThatWasNeverHeardIsNotBlamed) {
  const WrittenBoard board({at(5), at(5), std::nullopt});
  EXPECT_EQ(late_verdict(board, 5, 1).culprit, -1);
  EXPECT_EQ(late_verdict(board, 5, 1).blame, Blame::kLate);
  EXPECT_EQ(late_verdict(board, 5, 2).culprit, 2) << "nothing else is known of it";
  const WrittenBoard behind({at(5), at(4), std::nullopt});
  EXPECT_EQ(late_verdict(behind, 5, 1).culprit, 1);
}

TEST(StandingTest, RanksVoteOnWhoDiverged) {
  const std::chrono::milliseconds no_wait{0};
  const Standing other = at(5, "unit 1");
  const WrittenBoard three({at(5), other, at(5)});
  EXPECT_EQ(diverged_verdict(three, at(5), 2, no_wait).culprit, 1);
  EXPECT_EQ(diverged_verdict(three, at(5), 2, no_wait).blame, Blame::kDiverged);
  // Who stands elsewhere or said nothing has no vote.
  const WrittenBoard two({other, at(5), at(4), std::nullopt, at(6), at(5)});
  EXPECT_EQ(diverged_verdict(two, at(5), 1, no_wait).culprit, 0);
  const WrittenBoard alike({at(5), at(5)});
  EXPECT_EQ(diverged_verdict(alike, at(5), 1, no_wait).culprit, 1);
}

TEST(StandingTest, TheDeadAreBlamedBeforeThoseThatLeftBecauseOfThem) {
  WrittenBoard board({at(1), at(1), at(1), at(1)});
  EXPECT_FALSE(lost_verdict(board));
  board.presences[1] = Presence::kLeft;
  EXPECT_EQ(lost_verdict(board)->culprit, 1);
  EXPECT_EQ(lost_verdict(board)->blame, Blame::kLeft);
  for (const Presence presence : {Presence::kSilent, Presence::kDead}) {
    board.presences[2] = presence;
    EXPECT_EQ(lost_verdict(board)->culprit, 2);
    EXPECT_EQ(lost_verdict(board)->blame, Blame::kDead);
  }
  board.presences[1] = Presence::kSilent;
  board.presences[2] = Presence::kSilent;
  board.presences[3] = Presence::kDead;
  EXPECT_EQ(lost_verdict(board)->culprit, 3) << "who is silent may only be stopped";
}

std::string message_of(WrittenBoard& board, const Verdict& mine) {
  try {
    give_up(board, at(5), mine, std::chrono::milliseconds(300));
  } catch (const CollectiveTimeoutError& error) {
    return std::string("timeout: ") + error.what();
  } catch (const PeerLostError& error) {
    return std::string("lost: ") + error.what();
  } catch (const std::logic_error& error) {
    return std::string("mine: ") + error.what();
  }
}

TEST(StandingTest, OnlyTheFirstToFindOutReportsATimeout) {
  WrittenBoard board({at(5), at(4)});
  EXPECT_EQ(message_of(board, {1, Blame::kLate}),
            "timeout: all_gather of unit 0: rank 1 did not arrive within 300 ms; rank 0 in "
            "operation 5 (all_gather of unit 0, step 1); rank 1 in operation 4 (all_gather of unit "
            "0, step 1)");
  EXPECT_THAT(message_of(board, {0, Blame::kLate}),
              HasSubstr("lost: all_gather of unit 0: rank 1 did not arrive in time"));
}

TEST(StandingTest, EveryBlameHasItsWords) {
  const std::vector<std::pair<Verdict, std::string>> table = {
      {{1, Blame::kDead}, "lost: all_gather of unit 0: rank 1 is dead; rank 0"},
      {{1, Blame::kLeft}, "rank 1 has left"},
      {{1, Blame::kDiverged}, "lost: all_gather of unit 0: rank 1 is in another collective"},
      {{0, Blame::kDiverged}, "mine: all_gather of unit 0: this rank is in another collective"},
      {{-1, Blame::kDead}, "a peer went away"}};
  for (const auto& [verdict, words] : table) {
    WrittenBoard board({at(5), std::nullopt});
    EXPECT_THAT(message_of(board, verdict), HasSubstr(words));
  }
}

TEST(StandingTest, DescribesEightRanksAtMost) {
  const WrittenBoard board(std::vector<std::optional<Standing>>(9, at(2)));
  EXPECT_THAT(describe_ranks(board), HasSubstr("rank 7 in operation 2"));
  EXPECT_THAT(describe_ranks(board), testing::EndsWith("; ..."));
}

}  // namespace
}  // namespace lockstep::runtime
