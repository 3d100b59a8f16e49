#include "operator/plan/status.h"

#include <gtest/gtest.h>

#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

TEST(StatusTest, TransitionTimeChangesOnlyWithTheValue) {
  api::TrainingJobStatus status;
  status.observed_generation = 1;
  set_condition(status, {.type = kRunning, .value = false, .reason = "Starting"}, kStart);
  status.observed_generation = 2;
  set_condition(status, {.type = kRunning, .value = false, .reason = "Restarting"},
                kStart + seconds(5));
  const api::Condition* running = find_condition(status, kRunning);
  ASSERT_NE(running, nullptr);
  EXPECT_EQ(running->last_transition_time, kStart);
  EXPECT_EQ(running->reason, "Restarting");
  EXPECT_EQ(running->observed_generation, 2);
  set_condition(status, {.type = kRunning, .value = true, .reason = "AllRanksRunning"},
                kStart + seconds(9));
  EXPECT_EQ(find_condition(status, kRunning)->last_transition_time, kStart + seconds(9));
  EXPECT_EQ(status.conditions.size(), 1u);
}

TEST(StatusTest, AbsentConditionHasNoValueAndNoReason) {
  const api::TrainingJobStatus status;
  EXPECT_EQ(find_condition(status, kFailed), nullptr);
  EXPECT_FALSE(is_true(status, kFailed));
  EXPECT_FALSE(has_reason(status, kFailed, ""));
  EXPECT_FALSE(is_finished(status));
}

Observation at_step(int64_t step, seconds after_start) {
  Observation seen;
  seen.progress = api::ProgressStatus{
      .step = step, .total_steps = 100, .last_update_time = kStart + after_start};
  return seen;
}

TEST(StatusTest, ProgressIsTakenOverAtMostEveryFifteenSeconds) {
  api::TrainingJobStatus status;
  merge_progress(status, at_step(1, seconds(0)));
  EXPECT_EQ(status.progress->step, 1);
  merge_progress(status, at_step(5, seconds(14)));
  EXPECT_EQ(status.progress->step, 1);
  merge_progress(status, at_step(6, seconds(15)));
  EXPECT_EQ(status.progress->step, 6);
}

TEST(StatusTest, LastStepIsTakenOverAtOnce) {
  api::TrainingJobStatus status;
  merge_progress(status, at_step(99, seconds(0)));
  merge_progress(status, at_step(100, seconds(1)));
  EXPECT_EQ(status.progress->step, 100);
}

TEST(StatusTest, SilenceKeepsWhatWasKnown) {
  api::TrainingJobStatus status;
  Observation seen = at_step(3, seconds(0));
  seen.strategy = "zero3";
  merge_progress(status, seen);
  merge_progress(status, Observation{});
  EXPECT_EQ(status.progress->step, 3);
  EXPECT_EQ(status.strategy, "zero3");
}

TEST(StatusTest, SummaryNamesRankNodeReasonAndMessage) {
  const api::FirstFailure failure = {
      .rank = 3, .node = "n7", .reason = "NonFinite", .message = "loss is nan"};
  EXPECT_EQ(summarize(failure), "rank 3 on n7: NonFinite: loss is nan");
}

}  // namespace
}  // namespace lockstep::plan
