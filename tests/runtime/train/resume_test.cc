#include "runtime/train/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const json kDefaults = {{"beta", 0.1}, {"lossType", "sigmoid"}, {"labelSmoothing", 0}};

// Why a run of `now` must not go on from a checkpoint of `then`; empty if it may.
std::string conflict_of(const json& then, const json& now) {
  RankState s;
  s.job.train_json = now.dump();
  s.job.train.optimizer.kind = common::OptimizerConfig::Kind::kSgd;  // without moments
  s.job.train.optimizer.momentum = 0;
  Manifest manifest;
  manifest.train_json = then.dump();
  manifest.seed = s.config().seed;
  manifest.global_batch_size = s.config().batch.global_batch_size;
  const auto found = find_conflict(s, manifest, "/runs/a");
  return found ? found->message : "";
}

TEST(ResumeTest, ACheckpointThatNamesNoTaskIsOfPretraining) {
  EXPECT_EQ(conflict_of(json::object(), {{"task", "pretrain"}}), "");
  EXPECT_THAT(conflict_of(json::object(), {{"task", "sft"}}),
              HasSubstr("train.task was \"pretrain\" and is \"sft\""));
}

TEST(ResumeTest, WhatAPreferenceDoesNotSayHasItsDefault) {
  const json silent = {{"task", "dpo"}};
  const auto with = [](const json& preference) {
    return json{{"task", "dpo"}, {"preference", preference}};
  };
  EXPECT_EQ(conflict_of(silent, with(kDefaults)), "");
  EXPECT_EQ(conflict_of(with(kDefaults), silent), "");
  EXPECT_EQ(conflict_of(with({{"beta", 0.1}}), with(kDefaults)), "");
  EXPECT_EQ(conflict_of(with(json::object()), silent), "");
  EXPECT_THAT(conflict_of(silent, with({{"beta", 0.2}})), HasSubstr("train.preference was"));
  EXPECT_THAT(conflict_of(with({{"lossType", "ipo"}}), with(kDefaults)),
              HasSubstr("train.preference was"));
  EXPECT_THAT(conflict_of(with({{"labelSmoothing", 0.1}}), with(kDefaults)),
              HasSubstr("train.preference was"));
}

TEST(ResumeTest, OfSourcesOnlyTheSharesMatter) {
  const auto with = [](double first, double second) {
    const json sources = {{{"path", "a"}, {"weight", first}}, {{"path", "b"}, {"weight", second}}};
    return json{{"data", {{"sources", sources}}}};
  };
  const json one = {{"data", {{"sources", {{{"path", "a"}, {"weight", 7}}}}}}};
  EXPECT_EQ(conflict_of(with(1, 2), with(0.5, 1)), "");
  EXPECT_EQ(conflict_of({{"data", {{"train", "a"}}}}, one), "");
  EXPECT_THAT(conflict_of(with(1, 2), with(2, 1)),
              HasSubstr("train.data.sources was [1,2] and is [2,1]"));
  EXPECT_THAT(conflict_of(one, with(1, 1)), HasSubstr("train.data.sources was [1] and is [1,1]"));
}

}  // namespace
}  // namespace lockstep::runtime
