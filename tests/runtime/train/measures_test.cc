// What is measured beside the clock: skew, FLOPs, the GPU's load.
#include <vector>

#include <gtest/gtest.h>

#include "runtime/common/estimate_memory.h"
#include "runtime/train/busy_skew.h"
#include "runtime/train/flops.h"
#include "runtime/train/gpu_utilization.h"
#include "runtime/train/status_board.h"
#include "tests/support/paths.h"

namespace lockstep::runtime {
namespace {

TEST(BusySkewTest, TellsTheMedianAndTheFirstOfTheSlowest) {
  const BusySkew odd = busy_skew(std::vector<double>{0.3, 0.1, 0.2});
  EXPECT_EQ(odd.min, 0.1);
  EXPECT_EQ(odd.median, 0.2);
  EXPECT_EQ(odd.max, 0.3);
  EXPECT_EQ(odd.slowest_rank, 0);
  const BusySkew even = busy_skew(std::vector<double>{1, 4, 4, 2});
  EXPECT_EQ(even.median, 3);
  EXPECT_EQ(even.slowest_rank, 1);
  EXPECT_EQ(busy_skew(std::vector<double>{5}).median, 5);
}

// Two layers, width 64 in 4 heads of 16, 32 tokens: norms 5 * 64, attention 2 * 4 * 64 * 64, gated
// products 2 * 3 * 64 * 176, the head 256 * 64; attention over the tokens 12 * 2 * 64 * 32.
TEST(FlopsTest, CountMatricesAndAttentionButNotTheLookedUpTable) {
  common::ModelConfig model{.model_type = "llama",
                            .vocab_size = 256,
                            .hidden_size = 64,
                            .intermediate_size = 176,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 4,
                            .num_key_value_heads = 4,
                            .head_dim = 16};
  const double expected = 6 * (5 * 64 + 32768 + 67584 + 16384) + 49152;
  EXPECT_EQ(model_flops_per_token(model, 32), expected);
  EXPECT_EQ(expected,
            6.0 * (static_cast<double>(common::num_parameters(model)) - 256 * 64) + 49152);
  model.tie_word_embeddings = true;
  EXPECT_EQ(model_flops_per_token(model, 32), expected) << "the head's, once";
}

TEST(FlopsTest, ALayerWithAWindowCountsTheKeysThatItSees) {
  common::ModelConfig model{.model_type = "mistral",
                            .vocab_size = 256,
                            .hidden_size = 64,
                            .intermediate_size = 176,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 4,
                            .num_key_value_heads = 4,
                            .head_dim = 16};
  const double full = model_flops_per_token(model, 32);
  model.sliding_window = 10;
  EXPECT_EQ(full - model_flops_per_token(model, 32), 12 * 64 * 2 * (32 - 10));
  model.slides = {true, false};
  EXPECT_EQ(full - model_flops_per_token(model, 32), 12 * 64 * (32 - 10));
  model.sliding_window = 32;
  EXPECT_EQ(full, model_flops_per_token(model, 32));
}

TEST(FlopsTest, OfExpertsOnlyThoseThatATokenTakesCount) {
  common::ModelConfig model{.model_type = "mixtral",
                            .vocab_size = 256,
                            .hidden_size = 64,
                            .intermediate_size = 176,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 4,
                            .num_key_value_heads = 4,
                            .head_dim = 16,
                            .num_experts = 8,
                            .experts_per_token = 2};
  // Norms, attention, the router, two experts of three matrices; the head; attention's own.
  const double layer = 2 * 64 + 4 * 64 * 64 + 8 * 64 + 2 * 3 * 176 * 64;
  EXPECT_EQ(model_flops_per_token(model, 32), 6 * (2 * layer + 64 + 256 * 64) + 12 * 64 * 2 * 32);
  model.experts_per_token = 8;
  EXPECT_EQ(model_flops_per_token(model, 32),
            6.0 * static_cast<double>(common::num_parameters(model) - 256 * 64) + 12 * 64 * 2 * 32);
  model.model_type = "qwen3_moe";
  const double wide = model_flops_per_token(model, 32);
  model.moe_intermediate_size = 100;
  EXPECT_EQ(wide - model_flops_per_token(model, 32), 6.0 * 2 * 8 * 3 * 76 * 64);
}

TEST(GpuUtilizationTest, AsksTheDriversLibrary) {
  const auto gpu = GpuUtilization::open(support::kFakeNvml, 0);
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->sample(), 0.37);
}

TEST(GpuUtilizationTest, IsAbsentWithoutLibraryFunctionOrDevice) {
  EXPECT_FALSE(GpuUtilization::open("libno-such-driver.so", 0));
  EXPECT_FALSE(GpuUtilization::open("libm.so.6", 0)) << "a library without NVML's functions";
  EXPECT_FALSE(GpuUtilization::open(support::kFakeNvml, 2));
  EXPECT_FALSE(GpuUtilization::open(support::kFakeNvml, -1));
}

TEST(GpuUtilizationTest, ADeviceThatDoesNotTellHasNoSample) {
  const auto gpu = GpuUtilization::open(support::kFakeNvml, 1);
  ASSERT_TRUE(gpu);
  EXPECT_FALSE(gpu->sample());
}

TEST(GpuUtilizationTest, IsASeriesOnlyWhereThereIsAGpu) {
  StatusBoard board("tiny", 0, 0);
  const auto page = [&] { return board.routes().at("/metrics")().body; };
  EXPECT_EQ(page().find("lockstep_gpu"), std::string::npos);
  board.watch_gpu(*GpuUtilization::open(support::kFakeNvml, 0));
  EXPECT_NE(page().find("lockstep_gpu_utilization_ratio{rank=\"0\"} 0.37"), std::string::npos)
      << page();
}

}  // namespace
}  // namespace lockstep::runtime
