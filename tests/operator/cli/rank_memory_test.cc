#include "operator/cli/rank_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using common::RankDevice;
using nlohmann::json;

constexpr int64_t kGibibyte = int64_t{1} << 30;

TEST(RankMemoryTest, IsWhatTheResourcesSay) {
  struct Case {
    json resources;
    std::string asked;
    RankDevice device;
    std::optional<int64_t> limit_bytes;
    std::string source;
  };
  const json gpu = {{"limits", {{"nvidia.com/gpu", 1}, {"memory", "64Gi"}}}};
  const json cpu = {{"limits", {{"memory", "2Gi"}}}};
  constexpr RankDevice kCpu = RankDevice::kProcessor;
  constexpr RankDevice kGpu = RankDevice::kGpu;
  for (const Case& c : std::vector<Case>{
           {nullptr, "", kCpu, std::nullopt, ""},
           {cpu, "", kCpu, 2 * kGibibyte, "resources.limits.memory"},
           {cpu, "3Gi", kCpu, 3 * kGibibyte, "--memory"},
           {{{"limits", {{"memory", kGibibyte}}}}, "", kCpu, kGibibyte, "resources.limits.memory"},
           {gpu, "", kGpu, std::nullopt, ""},
           {gpu, "80Gi", kGpu, 80 * kGibibyte, "--memory"},
           {{{"limits", {{"nvidia.com/gpu", 0}, {"memory", "2Gi"}}}},
            "",
            kCpu,
            2 * kGibibyte,
            "resources.limits.memory"}}) {
    api::TrainingJob job;
    job.spec.resources = c.resources;
    const common::Result<RankMemory> memory = rank_memory(job, c.asked);
    ASSERT_TRUE(memory.has_value()) << c.resources << c.asked;
    EXPECT_EQ(memory->device, c.device) << c.resources;
    EXPECT_EQ(memory->limit_bytes, c.limit_bytes) << c.resources << c.asked;
    EXPECT_EQ(memory->source, c.source) << c.resources;
  }
}

TEST(RankMemoryTest, WhatIsNoAmountIsRefused) {
  for (const char* asked : {"much", "0", "-1Gi"}) {
    const common::Result<RankMemory> memory = rank_memory({}, asked);
    ASSERT_FALSE(memory.has_value()) << asked;
    EXPECT_EQ(memory.error().message,
              std::string("--memory: '") + asked + "' is no amount of memory");
  }
}

}  // namespace
}  // namespace lockstep::cli
