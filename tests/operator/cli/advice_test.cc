#include "operator/cli/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using common::TrainConfig;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TrainConfig sound_job() {
  TrainConfig train;
  train.data.sequence_length = 256;
  train.batch = {.global_batch_size = 64, .micro_batch_size = 2};
  train.steps = 1000;
  train.schedule.warmup_steps = 20;
  train.checkpoint.every_steps = 100;
  return train;
}

TEST(AdviceTest, TellsHowTheBatchIsMade) {
  TrainConfig train = sound_job();
  EXPECT_EQ(explain_batch(train, 4),
            "batch: 64 sequences = 4 ranks x 8 micro-batches of 2; 16.4 k tokens a step, 16.4 M in "
            "1000 steps");
  train.steps = 0;  // epochs tell them later
  EXPECT_EQ(explain_batch(train, 1),
            "batch: 64 sequences = 1 ranks x 32 micro-batches of 2; 16.4 k tokens a step");
}

TEST(AdviceTest, SpeaksOfWhatIsOutOfTheUsual) {
  const struct {
    const char* name;
    std::function<void(TrainConfig&)> change;
    const char* advice;  // null: nothing about the field
    const char* field;
  } cases[] = {
      {"sound", [](TrainConfig&) {}, nullptr, "warmupSteps"},
      {"no warm-up", [](TrainConfig& t) { t.schedule.warmup_steps = 0; }, "e.g. 20", "warmupSteps"},
      {"none, with sgd",
       [](TrainConfig& t) {
         t.schedule.warmup_steps = 0;
         t.optimizer.kind = common::OptimizerConfig::Kind::kSgd;
       },
       nullptr, "warmupSteps"},
      {"a third warms up", [](TrainConfig& t) { t.schedule.warmup_steps = 333; },
       "33.3 % of the run", "warmupSteps"},
      {"a fifth", [](TrainConfig& t) { t.schedule.warmup_steps = 200; }, nullptr, "warmupSteps"},
      {"a short run", [](TrainConfig& t) { t.steps = 20, t.schedule.warmup_steps = 0; }, nullptr,
       "warmupSteps"},
      {"steps by epochs", [](TrainConfig& t) { t.steps = 0; }, nullptr, "checkpoint"},
      {"no checkpoints", [](TrainConfig& t) { t.checkpoint.every_steps = 0; },
       "a failure costs the whole run", "checkpoint"},
      {"one checkpoint", [](TrainConfig& t) { t.checkpoint.every_steps = 600; },
       "costs up to 600 of 1000 steps; e.g. 100", "checkpoint"},
      {"none before the end", [](TrainConfig& t) { t.checkpoint.every_steps = 5000; },
       "costs up to 1000 of 1000 steps", "checkpoint"},
      {"two", [](TrainConfig& t) { t.checkpoint.every_steps = 500; }, nullptr, "checkpoint"},
      {"validation at the end only", [](TrainConfig& t) { t.data.validation = "v.txt"; },
       "e.g. 100", "evaluation"},
      {"a share held out, at the end only",
       [](TrainConfig& t) { t.data.validation_fraction = 0.1; }, "e.g. 100", "evaluation"},
      {"no validation data", [](TrainConfig&) {}, nullptr, "evaluation"},
  };
  for (const auto& one : cases) {
    TrainConfig train = sound_job();
    one.change(train);
    const std::vector<std::string> advice = advise(train);
    if (one.advice == nullptr) {
      EXPECT_THAT(advice, Not(Contains(HasSubstr(one.field)))) << one.name;
    } else {
      EXPECT_THAT(advice, Contains(testing::AllOf(HasSubstr(one.field), HasSubstr(one.advice))))
          << one.name;
    }
  }
}

TEST(AdviceTest, TheRateFollowsTheBatchAndNotTheRanks) {
  TrainConfig train = sound_job();
  EXPECT_THAT(advise(train), Contains(HasSubstr("the square root of k times the rate")));
  train.optimizer.kind = common::OptimizerConfig::Kind::kSgd;
  EXPECT_THAT(advise(train), Contains(HasSubstr("usually wants k times the rate")));
}

}  // namespace
}  // namespace lockstep::cli
