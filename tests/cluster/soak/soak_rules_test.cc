// The checker of the operator's soak finds each thing that it is there to find.
#include "tests/cluster/soak/soak_rules.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::soak {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A history written down event by event; each takes the next version.
class SoakRulesTest : public testing::Test {
 protected:
  JobRecord& job(Change change, int64_t attempt) {
    JobRecord record = {.version = ++version_, .change = change, .name = "j", .uid = "J"};
    record.attempt = attempt;
    record.max_restarts = 3;
    record.ranks = 2;
    record.status = "attempt " + std::to_string(attempt);
    return history_.jobs.emplace_back(record);
  }
  PodRecord& pod(Change change, int64_t attempt, int64_t rank, const std::string& phase) {
    const std::string name = "j-" + std::to_string(attempt) + "-" + std::to_string(rank);
    PodRecord record = {.version = ++version_, .change = change, .name = name, .uid = name};
    record.owner = "J";
    record.attempt = attempt;
    record.rank = rank;
    record.phase = phase;
    record.node = phase == "Pending" ? "" : "n";
    return history_.pods.emplace_back(record);
  }
  void add_pods(int64_t attempt, const std::string& phase) {
    for (int64_t rank = 0; rank < 2; ++rank) pod(Change::kAdded, attempt, rank, phase);
  }
  // The gang of the first attempt runs, and the status says that it has its nodes.
  void begin() {
    job(Change::kAdded, 0);
    add_pods(0, "Running");
    job(Change::kModified, 0).is_scheduled = true;
  }
  // Rank 1 fails, its peer is deleted, and the next attempt is recorded.
  void fail_once() {
    pod(Change::kModified, 0, 1, "Failed");
    history_.disturbances["J"] = 1;
    job(Change::kModified, 1).restarts = 1;
    pod(Change::kModified, 0, 0, "Running").is_deleting = true;
  }

  History history_;
  int64_t version_ = 0;
};

TEST_F(SoakRulesTest, AllowsALifeWithAFailure) {
  begin();
  fail_once();
  add_pods(1, "Running");
  history_.confirmed.insert("j-0-0");
  pod(Change::kDeleted, 0, 0, "Running");
  for (int64_t rank = 0; rank < 2; ++rank) pod(Change::kModified, 1, rank, "Succeeded");
  JobRecord& end = job(Change::kModified, 1);
  end.restarts = 1;
  end.has_succeeded = true;
  EXPECT_THAT(violations(history_), IsEmpty());
  EXPECT_THAT(violations_at_rest(history_), IsEmpty());
}

TEST_F(SoakRulesTest, FindsAPodOfAnAttemptThatWasNotRecorded) {
  job(Change::kAdded, 0);
  pod(Change::kAdded, 1, 0, "Pending");
  EXPECT_THAT(violations(history_),
              testing::Contains(HasSubstr("before its attempt was recorded")));
}

TEST_F(SoakRulesTest, FindsASecondGangBesideTheFirst) {
  begin();
  history_.disturbances["J"] = 1;
  job(Change::kModified, 1);
  pod(Change::kAdded, 1, 0, "Pending");
  EXPECT_THAT(violations(history_),
              ElementsAre(HasSubstr("while j-0-0 lived"), HasSubstr("while j-0-1 lived")));
}

TEST_F(SoakRulesTest, FindsARankThatRejoinsAlone) {
  begin();
  pod(Change::kAdded, 0, 1, "Pending").uid = "another";
  EXPECT_THAT(violations(history_), ElementsAre(HasSubstr("in a gang that had been whole")));
}

TEST_F(SoakRulesTest, FindsARankBeyondTheGang) {
  job(Change::kAdded, 0);
  pod(Change::kAdded, 0, 2, "Pending");
  EXPECT_THAT(violations(history_), ElementsAre(HasSubstr("beyond the 2 recorded")));
}

TEST_F(SoakRulesTest, FindsAnEndThatIsNone) {
  begin();
  job(Change::kModified, 0).has_succeeded = true;
  JobRecord& after = job(Change::kModified, 0);
  after.has_succeeded = true;
  after.status = "otherwise";
  pod(Change::kAdded, 0, 0, "Pending").uid = "another";
  EXPECT_THAT(violations(history_),
              testing::IsSupersetOf({HasSubstr("changed after its end"),
                                     HasSubstr("made for a job that had ended")}));
}

TEST_F(SoakRulesTest, FindsWhatGoesBack) {
  begin();
  fail_once();
  job(Change::kModified, 0);
  EXPECT_THAT(violations(history_), ElementsAre(HasSubstr("went back to an older attempt"),
                                                HasSubstr("forgot restarts")));
}

TEST_F(SoakRulesTest, FindsChargesAndAttemptsWithoutACause) {
  begin();
  job(Change::kModified, 1).restarts = 1;
  EXPECT_THAT(violations(history_), ElementsAre(HasSubstr("charged 1 restarts for 0 failures"),
                                                HasSubstr("attempt 1 after 0 disturbances")));
}

TEST_F(SoakRulesTest, FindsAFailureWithinTheBudget) {
  begin();
  fail_once();
  JobRecord& end = job(Change::kModified, 1);
  end.restarts = 1;
  end.has_failed = true;
  EXPECT_THAT(violations(history_), ElementsAre(HasSubstr("failed after 1 failures")));
}

TEST_F(SoakRulesTest, FindsADeletionByForce) {
  begin();
  pod(Change::kDeleted, 0, 0, "Running");
  EXPECT_THAT(violations(history_), ElementsAre(HasSubstr("by force though its node n is there")));
  history_.lost_nodes.insert("n");
  EXPECT_THAT(violations(history_), IsEmpty());
}

TEST_F(SoakRulesTest, FindsWhatIsLeftOver) {
  begin();
  history_.children.push_back(
      {.version = ++version_, .type = "services", .name = "j", .uid = "S", .owner = "J"});
  EXPECT_THAT(violations_at_rest(history_),
              ElementsAre(HasSubstr("job j has not ended"), HasSubstr("j-0-0 lives"),
                          HasSubstr("j-0-1 lives")));
  job(Change::kDeleted, 0);
  EXPECT_THAT(violations_at_rest(history_),
              ElementsAre(HasSubstr("j-0-0 has outlived"), HasSubstr("j-0-1 has outlived"),
                          HasSubstr("services j has outlived")));
}

}  // namespace
}  // namespace lockstep::soak
