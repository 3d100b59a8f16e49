#include "runtime/common/progress.h"

#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

JobProgress sample() {
  return JobProgress{.job = "tiny",
                     .attempt = 2,
                     .rank = 0,
                     .phase = "training",
                     .strategy = "zero3",
                     .backend = "gloo",
                     .step = 120,
                     .total_steps = 1000,
                     .loss = "2.3146999999999998",
                     .validation_loss = "2.5",
                     .tokens_per_second = 41200.5,
                     .eta_seconds = 5520,
                     .last_checkpoint_step = 100,
                     .ranks = {{.rank = 0, .step = 120, .step_seconds = 1.5, .age_seconds = 0.5},
                               {.rank = 1, .step = 119, .step_seconds = 1.25, .age_seconds = {}}},
                     .slowest_rank = 1,
                     .age_seconds = 0.5,
                     .gradient_norm = 0.75,
                     .learning_rate = 3e-4,
                     .flops_per_second = 1.5e9,
                     .mfu = 0.375,
                     .step_parts = StepParts{0.125, 0.25, 0.5, 1, 2},
                     .memory = MemoryUse{1, 2, 3, 4},
                     .phase_progress = PhaseProgress{12, 40}};
}

TEST(ProgressTest, SurvivesTheRoundTrip) {
  const auto got = decode_progress(encode(sample()));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->job, "tiny");
  EXPECT_EQ(got->attempt, 2);
  EXPECT_EQ(got->phase, "training");
  EXPECT_EQ(got->strategy, "zero3");
  EXPECT_EQ(got->backend, "gloo");
  EXPECT_EQ(got->step, 120);
  EXPECT_EQ(got->total_steps, 1000);
  EXPECT_EQ(got->loss, "2.3146999999999998");
  EXPECT_EQ(got->validation_loss, "2.5");
  EXPECT_EQ(got->tokens_per_second, 41200.5);
  EXPECT_EQ(got->eta_seconds, 5520);
  EXPECT_EQ(got->last_checkpoint_step, 100);
  ASSERT_EQ(got->ranks.size(), 2u);
  EXPECT_EQ(got->ranks[1].step, 119);
  EXPECT_EQ(got->ranks[0].age_seconds, 0.5);
  EXPECT_EQ(got->ranks[1].age_seconds, std::nullopt);
  EXPECT_EQ(got->slowest_rank, 1);
  EXPECT_EQ(got->gradient_norm, 0.75);
  EXPECT_EQ(got->learning_rate, 3e-4);
  EXPECT_EQ(got->flops_per_second, 1.5e9);
  EXPECT_EQ(got->mfu, 0.375);
  EXPECT_EQ(got->step_parts, (StepParts{0.125, 0.25, 0.5, 1, 2}));
  EXPECT_EQ(got->memory, (MemoryUse{1, 2, 3, 4}));
  EXPECT_EQ(got->age_seconds, 0.5);
  EXPECT_EQ(got->phase_progress, (PhaseProgress{12, 40}));
}

TEST(ProgressTest, APhaseMayNotKnowItsEnd) {
  const auto got = decode_progress(encode(
      JobProgress{.job = "tiny", .phase = "tokenizing", .phase_progress = PhaseProgress{12, 0}}));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->phase_progress, (PhaseProgress{12, 0}));
}

TEST(ProgressTest, AbsentValuesStayAbsent) {
  const auto got = decode_progress(encode(JobProgress{.job = "tiny", .phase = "starting"}));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_FALSE(got->eta_seconds);
  EXPECT_FALSE(got->last_checkpoint_step);
  EXPECT_FALSE(got->slowest_rank);
  EXPECT_FALSE(got->flops_per_second);
  EXPECT_FALSE(got->mfu);
  EXPECT_FALSE(got->step_parts);
  EXPECT_FALSE(got->memory);
  EXPECT_FALSE(got->age_seconds);
  EXPECT_FALSE(got->phase_progress);
  EXPECT_TRUE(got->ranks.empty());
}

TEST(ProgressTest, KeysAreCamelCase) {
  const std::string json = encode(sample());
  for (const char* const key : {"totalSteps", "tokensPerSecond", "etaSeconds", "lastCheckpointStep",
                                "slowestRank", "ageSeconds", "stepSeconds"}) {
    EXPECT_NE(json.find(std::string("\"") + key + "\""), std::string::npos) << key;
  }
}

TEST(ProgressTest, ForeignAnswersAreErrors) {
  for (const char* const text : {"", "ok", "[]", "{}", R"({"job": 3})"}) {
    const auto got = decode_progress(text);
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(got.error().code, ErrorCode::kDataLoss);
  }
}

}  // namespace
}  // namespace lockstep::common
