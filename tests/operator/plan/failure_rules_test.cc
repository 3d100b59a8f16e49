#include "operator/plan/failure_rules.h"

#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using api::RuleAction;

RankFailure failure(int64_t exit_code, const char* reason) {
  return {.rank = 1, .verdict = Verdict::kRestart, .reason = reason, .exit_code = exit_code};
}

TEST(FailureRulesTest, FirstMatchingRuleDecides) {
  const std::vector<api::FailureRule> rules = {
      {.exit_codes = {3, 4}, .reasons = {}, .action = RuleAction::kFail},
      {.exit_codes = {}, .reasons = {"OOMKilled", "NodeLost"}, .action = RuleAction::kRestartFree},
      {.exit_codes = {4, 137}, .reasons = {}, .action = RuleAction::kRestart}};
  const struct {
    RankFailure failure;
    std::optional<std::size_t> rule;
    Verdict verdict;
  } table[] = {{failure(3, "ExitCode3"), 0, Verdict::kFail},
               {failure(4, "ExitCode4"), 0, Verdict::kFail},
               {failure(137, "OOMKilled"), 1, Verdict::kRestartFree},
               {failure(-1, "NodeLost"), 1, Verdict::kRestartFree},
               {failure(137, "ExitCode137"), 2, Verdict::kRestart},
               {failure(5, "ExitCode5"), std::nullopt, Verdict::kRestart},
               {failure(-1, "PodDeleted"), std::nullopt, Verdict::kRestart}};
  for (const auto& row : table) {
    RankFailure judged = row.failure;
    EXPECT_EQ(apply_rules(rules, judged), row.rule) << row.failure.reason;
    EXPECT_EQ(judged.verdict, row.verdict) << row.failure.reason;
  }
}

TEST(FailureRulesTest, RuleOverridesTheTableBothWays) {
  api::TrainingJob job = training_job(2);
  job.spec.failure_policy.rules = {
      {.exit_codes = {66}, .reasons = {}, .action = RuleAction::kRestartFree},
      {.exit_codes = {}, .reasons = {"Preempted"}, .action = RuleAction::kFail}};
  ModelCluster cluster = running_cluster(job);
  cluster.end(0, 66);  // InputNotFound: Fail by the table
  Plan next = cluster.decide();
  EXPECT_EQ(next.status.attempt, 1);
  EXPECT_EQ(next.status.restarts, 0);
  EXPECT_NE(next.events.at(0).message.find("by failurePolicy.rules[0]"), std::string::npos);

  cluster = running_cluster(job);
  cluster.end(0, 85);
  cluster.end(1, 85);
  next = cluster.decide();
  EXPECT_TRUE(has_reason(next.status, kFailed, "Preempted"));
  EXPECT_NE(next.status.message.find("by failurePolicy.rules[1]"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::plan
