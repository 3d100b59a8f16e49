#include "operator/cli/log_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/status.h"

namespace lockstep::cli {
namespace {

PodFact pod(int64_t attempt, int64_t rank) {
  return {.name = "demo-" + std::to_string(attempt) + "-" + std::to_string(rank),
          .attempt = attempt,
          .rank = rank};
}

// Attempt 0 has failed by rank 2, whose pod was kept; attempt 1 waits for its pods.
api::TrainingJob restarting() {
  api::TrainingJob job;
  job.meta.name = "demo";
  job.status.attempt = 1;
  job.status.first_failure = api::FirstFailure{.attempt = 0, .rank = 2, .pod = "demo-0-2"};
  return job;
}

std::vector<std::string> chosen(const api::TrainingJob& job, const std::vector<PodFact>& pods,
                                const LogWish& wish) {
  std::vector<std::string> lines;
  for (const LogSource& source : choose_logs(job, pods, wish)) {
    lines.push_back(source.prefix + source.pod);
  }
  return lines;
}

using Names = std::vector<std::string>;

TEST(LogChoiceTest, OneRankIsTheFirstThatFailedOrRankZero) {
  const std::vector<PodFact> pods = {pod(0, 0), pod(0, 1), pod(0, 2)};
  EXPECT_EQ(chosen(restarting(), pods, {}), Names{"demo-0-2"});
  EXPECT_EQ(chosen({}, pods, {}), Names{"demo-0-0"});
  EXPECT_EQ(chosen(restarting(), pods, {.rank = 1}), Names{"demo-0-1"});
  EXPECT_EQ(chosen(restarting(), pods, {.rank = 7}), Names{});
}

TEST(LogChoiceTest, AllRanksComeWithTheFirstFailingOneFirst) {
  const std::vector<PodFact> pods = {pod(0, 0), pod(0, 1), pod(0, 2), pod(0, 3)};
  EXPECT_EQ(
      chosen(restarting(), pods, {.all_ranks = true}),
      (Names{"[rank 2] demo-0-2", "[rank 0] demo-0-0", "[rank 1] demo-0-1", "[rank 3] demo-0-3"}));
}

TEST(LogChoiceTest, ANewerAttemptThatRunsIsMeantInPlaceOfTheFailedOne) {
  api::TrainingJob job = restarting();
  plan::set_condition(job.status, {plan::kRunning, true, "AllRanksRunning", ""}, {});
  const std::vector<PodFact> pods = {pod(0, 2), pod(1, 0), pod(1, 1), pod(1, 2)};
  EXPECT_EQ(chosen(job, pods, {}), Names{"demo-1-0"});
  EXPECT_EQ(chosen(job, pods, {.attempt = 0}), Names{});
  EXPECT_EQ(chosen(job, pods, {.rank = 2, .attempt = 0}), Names{"demo-0-2"});
}

TEST(LogChoiceTest, APodOfSeveralRanksIsFoundByEachOfThem) {
  api::TrainingJob job = restarting();
  job.status.ranks.per_pod = 2;
  job.status.first_failure->rank = 3;
  const std::vector<PodFact> pods = {pod(0, 0), pod(0, 2)};
  EXPECT_EQ(chosen(job, pods, {.all_ranks = true}),
            (Names{"[ranks 2-3] demo-0-2", "[ranks 0-1] demo-0-0"}));
}

}  // namespace
}  // namespace lockstep::cli
