// Relations that any estimate must keep; decoder_test and memory_estimate_test compare it with what
// is allocated.
#include "runtime/common/estimate_memory.h"

#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

// Llama 3.2 1B but for its tied embeddings.
TrainConfig one_billion() {
  return {.model = {.model_type = "llama",
                    .vocab_size = 128256,
                    .hidden_size = 2048,
                    .intermediate_size = 8192,
                    .num_hidden_layers = 16,
                    .num_attention_heads = 32,
                    .num_key_value_heads = 8,
                    .head_dim = 64,
                    .max_position_embeddings = 2048},
          .data = {.sequence_length = 2048},
          .batch = {.global_batch_size = 64, .micro_batch_size = 1}};
}

TEST(EstimateMemoryTest, CountsTheParametersOfAKnownModel) {
  // 1,235,814,400 as published, and the head that is not tied here.
  EXPECT_EQ(num_parameters(one_billion().model), 1235814400 + int64_t{128256} * 2048);
}

// As published: 46.7 and 30.5 billion.
TEST(EstimateMemoryTest, CountsTheExpertsOfKnownModels) {
  const ModelConfig mixtral = {.model_type = "mixtral",
                               .vocab_size = 32000,
                               .hidden_size = 4096,
                               .intermediate_size = 14336,
                               .num_hidden_layers = 32,
                               .num_attention_heads = 32,
                               .num_key_value_heads = 8,
                               .head_dim = 128,
                               .num_experts = 8,
                               .experts_per_token = 2};
  EXPECT_EQ(num_parameters(mixtral), 46702792704);
  const ModelConfig qwen = {.model_type = "qwen3_moe",
                            .vocab_size = 151936,
                            .hidden_size = 2048,
                            .intermediate_size = 6144,
                            .num_hidden_layers = 48,
                            .num_attention_heads = 32,
                            .num_key_value_heads = 4,
                            .head_dim = 128,
                            .num_experts = 128,
                            .experts_per_token = 8,
                            .moe_intermediate_size = 768};
  EXPECT_EQ(num_parameters(qwen), 30532122624);
}

TEST(EstimateMemoryTest, DdpHoldsSixteenBytesPerParameter) {
  const MemoryEstimate one = estimate_memory(one_billion(), Strategy::kDdp, 8);
  const auto state = static_cast<double>(16 * num_parameters(one_billion().model));
  EXPECT_NEAR(static_cast<double>(one.weights + one.gradients + one.optimizer), state,
              0.001 * state);
}

TEST(EstimateMemoryTest, StagesOfZeroShardOptimizerThenGradientsThenWeights) {
  const TrainConfig train = one_billion();
  const MemoryEstimate ddp = estimate_memory(train, Strategy::kDdp, 8);
  const MemoryEstimate zero1 = estimate_memory(train, Strategy::kZero1, 8);
  const MemoryEstimate zero2 = estimate_memory(train, Strategy::kZero2, 8);
  const MemoryEstimate zero3 = estimate_memory(train, Strategy::kZero3, 8);
  EXPECT_NEAR(static_cast<double>(zero1.optimizer), static_cast<double>(ddp.optimizer) / 8, 1e6);
  EXPECT_EQ(zero1.gradients, ddp.gradients);
  EXPECT_NEAR(static_cast<double>(zero2.gradients), static_cast<double>(ddp.gradients) / 8, 1e6);
  EXPECT_EQ(zero2.weights, ddp.weights);
  EXPECT_NEAR(static_cast<double>(zero3.weights), static_cast<double>(ddp.weights) / 8, 1e6);
  EXPECT_GT(zero3.gathered, 0);
  EXPECT_EQ(zero2.gathered, 0);
  EXPECT_LT(zero3.total(), zero2.total());
}

// Note [Compute copies] in parallel/unit_storage.h.
TEST(EstimateMemoryTest, SixteenBitsAddACopyAndShardTheMasters) {
  TrainConfig train = one_billion();
  const auto weight_bytes = [&](Strategy strategy) {
    const MemoryEstimate memory = estimate_memory(train, strategy, 8);
    return static_cast<double>(memory.weights) / static_cast<double>(num_parameters(train.model));
  };
  train.precision = DType::kBf16;
  EXPECT_NEAR(weight_bytes(Strategy::kDdp), 4 + 2, 0.01);
  EXPECT_NEAR(weight_bytes(Strategy::kZero1), 4.0 / 8 + 2, 0.01);
  EXPECT_NEAR(weight_bytes(Strategy::kZero2), 4.0 / 8 + 2, 0.01);
  EXPECT_NEAR(weight_bytes(Strategy::kZero3), (4.0 + 2) / 8, 0.01);
  const MemoryEstimate bf16 = estimate_memory(train, Strategy::kZero3, 8);
  train.precision = DType::kFp32;
  const MemoryEstimate fp32 = estimate_memory(train, Strategy::kZero3, 8);
  EXPECT_EQ(2 * bf16.gathered, fp32.gathered);
  EXPECT_LT(bf16.activations, fp32.activations);
  EXPECT_EQ(bf16.gradients, fp32.gradients);
  EXPECT_EQ(bf16.optimizer, fp32.optimizer);
}

TEST(EstimateMemoryTest, FrozenUnitsHaveWeightsOnly) {
  TrainConfig train = one_billion();
  const int64_t all = num_parameters(train.model);
  const int64_t embedding = train.model.vocab_size * train.model.hidden_size;
  const MemoryEstimate full = estimate_memory(train, Strategy::kZero2, 8);
  train.frozen.assign(18, false);
  train.frozen.front() = true;
  EXPECT_EQ(num_trained_parameters(train), all - embedding);
  const MemoryEstimate some = estimate_memory(train, Strategy::kZero2, 8);
  const auto ratio = static_cast<double>(all - embedding) / static_cast<double>(all);
  EXPECT_EQ(some.weights, full.weights);
  EXPECT_NEAR(static_cast<double>(some.gradients), ratio * static_cast<double>(full.gradients),
              1e6);
  EXPECT_NEAR(static_cast<double>(some.optimizer), ratio * static_cast<double>(full.optimizer),
              1e6);
  EXPECT_LE(some.partial_sums, full.partial_sums);
  EXPECT_LT(some.snapshot, full.snapshot);
}

// The job that tests/gpu/speed.py has one rank train.
struct GpuJob {
  int64_t hidden, layers, heads, kv_heads, feed_forward, vocab, length, micro_batch;
  DType precision;
  double gibibytes;  // that its buffers took on an NVIDIA H100, as runtime/README.md has them
};

TrainConfig train_of(const GpuJob& job) {
  return {.model = {.model_type = "llama",
                    .vocab_size = job.vocab,
                    .hidden_size = job.hidden,
                    .intermediate_size = job.feed_forward,
                    .num_hidden_layers = job.layers,
                    .num_attention_heads = job.heads,
                    .num_key_value_heads = job.kv_heads,
                    .head_dim = job.hidden / job.heads,
                    .max_position_embeddings = job.length},
          .data = {.sequence_length = job.length},
          .batch = {.global_batch_size = job.micro_batch, .micro_batch_size = job.micro_batch},
          .precision = job.precision};
}

// Measured to a tenth of a GiB.
TEST(EstimateMemoryTest, IsWithinTenPercentOfWhatRanksTookOnAGpu) {
  for (const GpuJob& job : {GpuJob{256, 6, 4, 4, 704, 8192, 512, 16, DType::kBf16, 0.9},
                            GpuJob{256, 6, 4, 4, 704, 8192, 512, 16, DType::kFp32, 1.0},
                            GpuJob{768, 12, 12, 12, 2048, 32000, 1024, 8, DType::kBf16, 5.4},
                            GpuJob{768, 12, 12, 12, 2048, 32000, 1024, 8, DType::kFp32, 6.2},
                            GpuJob{1024, 24, 16, 8, 2816, 32000, 1024, 8, DType::kBf16, 11.9},
                            GpuJob{1024, 24, 16, 8, 2816, 32000, 1024, 8, DType::kFp32, 14.2},
                            GpuJob{2048, 20, 32, 8, 5632, 32000, 2048, 4, DType::kBf16, 26.4}}) {
    const MemoryEstimate memory =
        estimate_memory(train_of(job), Strategy::kDdp, 1, RankDevice::kGpu);
    EXPECT_NEAR(static_cast<double>(memory.buffers()) / 0x1p30, job.gibibytes,
                0.1 * job.gibibytes + 0.05)
        << job.hidden;
  }
}

// What differs: chunks of logits, sixteen times as many rows and rounded out of place, the scratch
// of attention, no copy for checkpoints, and CUDA in place of the program.
TEST(EstimateMemoryTest, AGpuHoldsLargerChunksAndCudaItself) {
  TrainConfig train = one_billion();
  train.checkpoint.every_steps = 10;
  train.steps = 100;
  for (const DType precision : {DType::kFp32, DType::kBf16}) {
    train.precision = precision;
    const MemoryEstimate host = estimate_memory(train, Strategy::kZero3, 8);
    const MemoryEstimate gpu = estimate_memory(train, Strategy::kZero3, 8, RankDevice::kGpu);
    EXPECT_EQ(gpu.weights, host.weights);
    EXPECT_EQ(gpu.gradients, host.gradients);
    EXPECT_EQ(gpu.optimizer, host.optimizer);
    EXPECT_EQ(gpu.gathered, host.gathered);
    EXPECT_EQ(gpu.partial_sums, host.partial_sums);
    EXPECT_GT(host.snapshot, 0);
    EXPECT_EQ(gpu.snapshot, 0);
    EXPECT_EQ(gpu.process, int64_t{600} << 20) << "whatever the ranks";
    // The rest of the head's scratch, and the layer's that it shares, are a seventh of this.
    const int64_t chunk = 4 * train.data.sequence_length * train.model.vocab_size;  // of 16 * 256
    const int64_t more = precision == DType::kFp32 ? chunk : chunk + chunk / 2;
    EXPECT_NEAR(static_cast<double>(gpu.logits), static_cast<double>(more),
                0.2 * static_cast<double>(more));
    EXPECT_GT(gpu.logits, 10 * host.logits);
  }
}

TEST(EstimateMemoryTest, CheckpointingTradesActivations) {
  TrainConfig train = one_billion();
  const int64_t none = estimate_memory(train, Strategy::kDdp, 1).activations;
  train.activation_checkpointing = ActivationCheckpointing::kSelective;
  const int64_t selective = estimate_memory(train, Strategy::kDdp, 1).activations;
  train.activation_checkpointing = ActivationCheckpointing::kBlock;
  const int64_t block = estimate_memory(train, Strategy::kDdp, 1).activations;
  EXPECT_LT(selective, none / 3);
  EXPECT_LT(block, selective);
}

TEST(EstimateMemoryTest, CountsTheMomentsThatTheOptimizerKeeps) {
  TrainConfig train = one_billion();
  const MemoryEstimate adamw = estimate_memory(train, Strategy::kZero1, 4);
  train.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0.9};
  const MemoryEstimate momentum = estimate_memory(train, Strategy::kZero1, 4);
  EXPECT_EQ(2 * momentum.optimizer, adamw.optimizer);
  EXPECT_EQ(3 * momentum.snapshot, 2 * adamw.snapshot);
  train.optimizer.momentum = 0;
  EXPECT_EQ(estimate_memory(train, Strategy::kZero1, 4).optimizer, 0);
}

TEST(EstimateMemoryTest, CountsACopyForSavesOfARunThatGoesOnBehindOne) {
  struct Case {
    const char* what;
    bool async;
    int64_t every_steps;
    int64_t steps;
    int64_t patience;
    bool has_copy;
  };
  const Case cases[] = {
      {"saves before its end", true, 100, 101, 0, true},
      {"ends with its first save", true, 100, 100, 0, false},
      {"saves at its end only", true, 0, 1000, 0, false},
      {"saves its best models", true, 0, 1000, 3, true},
      {"has as many steps as its data gives", true, 100, 0, 0, true},
      {"waits for its saves", false, 100, 1000, 3, false},
  };
  for (const Case& c : cases) {
    TrainConfig train = one_billion();
    train.checkpoint = {.every_steps = c.every_steps, .async = c.async};
    train.steps = c.steps;
    train.evaluation.early_stopping_patience = c.patience;
    EXPECT_EQ(saves_behind_training(train), c.has_copy) << c.what;
    EXPECT_EQ(estimate_memory(train, Strategy::kZero3, 8).snapshot > 0, c.has_copy) << c.what;
  }
}

TEST(EstimateMemoryTest, OffloadMovesWhatTheOptimizerAloneNeeds) {
  TrainConfig train = one_billion();
  for (const DType precision : {DType::kFp32, DType::kBf16}) {
    for (const Strategy strategy : {Strategy::kDdp, Strategy::kZero1, Strategy::kZero3}) {
      train.precision = precision;
      train.offload.optimizer = OffloadTarget::kNone;
      const MemoryEstimate kept = estimate_memory(train, strategy, 8);
      EXPECT_EQ(kept.nvme + kept.windows, 0);
      train.offload.optimizer = OffloadTarget::kNvme;
      const MemoryEstimate moved = estimate_memory(train, strategy, 8);
      EXPECT_EQ(moved.optimizer, 0);
      EXPECT_EQ(moved.snapshot, 0);
      EXPECT_EQ(moved.nvme, kept.optimizer + kept.weights - moved.weights);
      EXPECT_EQ(moved.weights == kept.weights, precision == DType::kFp32) << "masters stay in fp32";
      EXPECT_EQ(moved.buffers() - moved.windows, kept.buffers() - moved.nvme);
      EXPECT_LE(moved.windows, int64_t{2} * ((12 << 20) + 4096));
    }
  }
}

TEST(EstimateMemoryTest, LogitsStayWithinAChunkHoweverLongTheBatch) {
  TrainConfig train = one_billion();
  train.batch.micro_batch_size = 64;
  EXPECT_LE(estimate_memory(train, Strategy::kDdp, 1).logits, int64_t{4} * 256 * 128256);
}

TEST(EstimateMemoryTest, PartialSumsGrowWithTheMicroBatchesOfARank) {
  TrainConfig train = one_billion();
  train.batch.global_batch_size = 4;
  const int64_t one_each = estimate_memory(train, Strategy::kDdp, 4).partial_sums;
  train.batch.global_batch_size = 64;
  EXPECT_GT(estimate_memory(train, Strategy::kDdp, 4).partial_sums, one_each);
  // Whole gradients wait where the ranks are no power of two.
  train.batch.global_batch_size = 48;
  EXPECT_GT(estimate_memory(train, Strategy::kZero3, 3).partial_sums,
            estimate_memory(train, Strategy::kZero3, 4).partial_sums);
}

}  // namespace
}  // namespace lockstep::common
