// What resolve_train() decides, as decode_train() sees it.
#include <vector>

#include <gtest/gtest.h>

#include "runtime/common/train_config.h"
#include "tests/runtime/common/minimal_train.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

TEST(TrainResolveTest, OptimizersHaveTheDefaultsOfTorch) {
  using Kind = OptimizerConfig::Kind;
  struct Case {
    const char* optimizer;
    Kind kind;
    double decay, momentum;
    bool nesterov;
    int moments;
  };
  const std::vector<Case> table = {
      {R"({"name": "adamw"})", Kind::kAdamW, 0.1, 0, false, 2},
      {R"({"name": "adam"})", Kind::kAdam, 0, 0, false, 2},
      {R"({"name": "adam", "weightDecay": 0.2})", Kind::kAdam, 0.2, 0, false, 2},
      {R"({"name": "sgd"})", Kind::kSgd, 0, 0, false, 0},
      {R"({"name": "sgd", "momentum": 0, "nesterov": false})", Kind::kSgd, 0, 0, false, 0},
      {R"({"name": "sgd", "momentum": 0.9})", Kind::kSgd, 0, 0.9, false, 1},
      {R"({"name": "sgd", "momentum": 0.9, "nesterov": true})", Kind::kSgd, 0, 0.9, true, 1},
  };
  for (const Case& c : table) {
    const json train = with("/optimizer", json::parse(c.optimizer));
    EXPECT_TRUE(check_train(train, 1, "train").empty()) << c.optimizer;
    const OptimizerConfig optimizer = decode_train(train).optimizer;
    EXPECT_EQ(optimizer.kind, c.kind) << c.optimizer;
    EXPECT_EQ(optimizer.weight_decay, c.decay) << c.optimizer;
    EXPECT_EQ(optimizer.momentum, c.momentum) << c.optimizer;
    EXPECT_EQ(optimizer.nesterov, c.nesterov) << c.optimizer;
    EXPECT_EQ(num_moments(optimizer), c.moments) << c.optimizer;
  }
}

TEST(TrainResolveTest, DecayStepsFollowFromTheShape) {
  struct Case {
    const char* schedule;
    int64_t warmup, decay;
  };
  const std::vector<Case> table = {
      {R"({"name": "cosine", "warmupSteps": 20})", 20, 80},
      {R"({"name": "linear", "warmupSteps": 20, "decaySteps": 30})", 20, 30},
      {R"({"name": "constant"})", 0, 0},
      {R"({"name": "wsd"})", 3, 10},
      {R"({"name": "wsd", "warmupSteps": 95})", 95, 5},
      {R"({"name": "wsd", "warmupSteps": 100})", 100, 0},
      {R"({"name": "wsd", "warmupRatio": 0.5, "decaySteps": 50})", 50, 50},
  };
  for (const Case& c : table) {
    const json train = with("/schedule", json::parse(c.schedule));
    EXPECT_TRUE(check_train(train, 1, "train").empty()) << c.schedule;
    const ScheduleConfig schedule = decode_train(train).schedule;
    EXPECT_EQ(schedule.warmup_steps, c.warmup) << c.schedule;
    EXPECT_EQ(schedule.decay_steps, c.decay) << c.schedule;
  }
}

}  // namespace
}  // namespace lockstep::common
