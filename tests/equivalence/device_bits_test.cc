// What holds on a device with memory of its own: strategies, rank counts and interruptions change
// no bit. Where LOCKSTEP_TEST_GPU_RUNTIME names a runtime of the CUDA build, its ranks share the
// GPUs that there are; else a device is emulated, which ends a process that touches its memory in
// another way, and which has the processor's bits.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/equivalence/same_bits.h"

namespace lockstep::equivalence {
namespace {

using common::ExitCode;
using nlohmann::json;
using testing::HasSubstr;

constexpr char kGpuRuntime[] = "LOCKSTEP_TEST_GPU_RUNTIME";

class DeviceBitsTest : public SameBitsTest {
 protected:
  static bool has_gpu() { return std::getenv(kGpuRuntime) != nullptr; }

  GangOptions on_device(const TinyJob& job, const std::string& name, int attempt = 0) const {
    GangOptions gang = options(job, name, attempt);
    gang.runtime = has_gpu() ? std::getenv(kGpuRuntime) : support::kEmulatedGpuProgram;
    gang.env["LOCKSTEP_DEVICE"] = "cuda-shared";
    return gang;
  }

  void train_on_device(const TinyJob& job, const std::string& name, int attempt = 0) const {
    Gang gang(on_device(job, name, attempt));
    EXPECT_EQ(gang.wait(), std::vector<int>(static_cast<std::size_t>(job.ranks), 0))
        << name << ": " << gang.log(0);
  }

  // Trains `job` on the device with one rank and with the ranks that it names, and where the device
  // has the processor's bits, on that.
  void expect_same_bits_on(const TinyJob& job, const std::string& name) const {
    TinyJob alone = job;
    alone.ranks = 1;
    alone.strategy = "ddp";
    train_on_device(alone, name + "-alone");
    train_on_device(job, name);
    expect_same(name, name + "-alone");
    if (has_gpu()) return;
    train(alone, name + "-cpu");
    expect_same(name, name + "-cpu");
  }

  void expect_refusal(const TinyJob& job, const std::string& said) const {
    Gang gang(on_device(job, "refused"));
    EXPECT_EQ(gang.wait().front(), static_cast<int>(ExitCode::kInvalidConfig)) << gang.log(0);
    const auto words = gang.last_words(0);
    ASSERT_TRUE(words) << gang.log(0);
    EXPECT_THAT(words->message, HasSubstr(said));
  }
};

// Of 12 micro-batches a step.
TinyJob few_shared_by(const Sharing& sharing) {
  TinyJob job = shared_by(sharing);
  job.micro_batches = 12;
  return job;
}

struct Shared {
  Sharing sharing;
  std::string precision;
  std::string checkpointing;
};

TEST_F(DeviceBitsTest, EveryStrategyGivesTheBitsOfOneRank) {
  const std::vector<Shared> cover = {
      {{"ddp", 0, 2}, "fp32", "none"},       {{"ddp", 0, 4}, "bf16", "selective"},
      {{"zero1", 0, 2}, "bf16", "none"},     {{"zero1", 0, 3}, "fp16", "none"},
      {{"zero2", 0, 4}, "fp32", "block"},    {{"zero2", 0, 2}, "bf16", "none"},
      {{"zero3", 0, 2}, "fp16", "block"},    {{"zero3", 0, 4}, "bf16", "none"},
      {{"zero3", 2, 4}, "fp32", "selective"}};
  for (const std::string& precision : all_precisions()) {
    const TinyJob alone = {.ranks = 1, .steps = 4, .layers = kLayers, .precision = precision};
    train_on_device(alone, precision);
    ASSERT_EQ(read_curve(folder_.path(precision)).size(), 4U);
    if (has_gpu()) continue;
    train(alone, precision + "-cpu");
    expect_same(precision, precision + "-cpu");
  }
  for (const auto& [sharing, precision, checkpointing] : cover) {
    TinyJob job = few_shared_by(sharing);
    job.steps = 4;
    job.precision = precision;
    job.activation_checkpointing = checkpointing;
    const std::string name =
        precision + "-" + name_of(sharing) + "-" + std::to_string(sharing.ranks);
    train_on_device(job, name);
    expect_same(name, precision);
  }
}

TEST_F(DeviceBitsTest, ACheckpointGoesOnUnderAnotherStrategyAndRankCount) {
  const TinyJob whole = {.ranks = 1, .layers = kLayers};
  train_on_device(whole, "whole");
  train_on_device(few_shared_by({"zero3", 0, 4}), "resumed");
  forget_after_step("resumed", 8);
  train_on_device(few_shared_by({"zero1", 0, 2}), "resumed", /*attempt=*/1);
  expect_same("resumed", "whole");
}

// A device's checkpoint goes on where there is none, and the other way round.
TEST_F(DeviceBitsTest, ACheckpointGoesOnOnAnotherDevice) {
  const TinyJob job = few_shared_by({"zero2", 0, 2});
  train_on_device(job, "from-device");
  forget_after_step("from-device", 8);
  train(job, "from-device", /*attempt=*/1);
  train(job, "from-cpu");
  forget_after_step("from-cpu", 8);
  train_on_device(job, "from-cpu", /*attempt=*/1);
  EXPECT_EQ(read_curve(folder_.path("from-device")).size(), 12U);
  EXPECT_EQ(read_curve(folder_.path("from-cpu")).size(), 12U);
  if (!has_gpu()) expect_same("from-device", "from-cpu");
}

// Biases, norms of heads, soft-caps, windows, tied embeddings and factors.
TEST_F(DeviceBitsTest, FamiliesOfEveryKindOfLayer) {
  const std::vector<json> configs = {{{"model_type", "qwen2"}, {"tie_word_embeddings", true}},
                                     {{"model_type", "qwen3"}, {"tie_word_embeddings", false}},
                                     {{"model_type", "mistral"}, {"sliding_window", 20}},
                                     {{"model_type", "granite"},
                                      {"embedding_multiplier", 2.0},
                                      {"residual_multiplier", 0.5},
                                      {"attention_multiplier", 0.3},
                                      {"logits_scaling", 4.0}},
                                     {{"model_type", "olmo2"}},
                                     {{"model_type", "phi3"}},
                                     {{"model_type", "gemma2"},
                                      {"tie_word_embeddings", true},
                                      {"query_pre_attn_scalar", 12},
                                      {"sliding_window", 16}}};
  for (const json& config : configs) {
    TinyJob job = {.ranks = 2, .strategy = "zero3", .steps = 3, .precision = "bf16"};
    job.more = {{"model", {{"config", config}}}};
    expect_same_bits_on(job, config["model_type"]);
  }
}

TEST_F(DeviceBitsTest, AdaptersBesideFrozenWeightsAndTheirEvaluation) {
  train({.ranks = 1, .steps = 2}, "base");
  support::write_text(folder_.path("validation.txt"), tiny_corpus(500));
  TinyJob job = {.ranks = 2, .strategy = "zero3", .steps = 4, .precision = "bf16"};
  job.more = {
      {"model", {{"path", folder_.path("base/model")}, {"config", nullptr}, {"init", nullptr}}},
      {"lora", {{"rank", 4}, {"alpha", 8}, {"dropout", 0.1}, {"merge", true}}},
      {"data", {{"validation", folder_.path("validation.txt")}}}};
  expect_same_bits_on(job, "lora");
}

// Short documents share samples: attention sees their borders by positions.
TEST_F(DeviceBitsTest, PackedDocuments) {
  std::string lines;
  for (int line = 0; line < 400; ++line) {
    const std::string text(static_cast<std::size_t>(5 + line * 7 % 60),
                           static_cast<char>('a' + line % 20));
    lines += "{\"text\": \"" + text + "\"}\n";
  }
  support::write_text(folder_.path("lines.jsonl"), lines);
  TinyJob job = {.ranks = 2, .strategy = "zero3", .steps = 3, .precision = "bf16"};
  job.more = {{"data", {{"train", folder_.path("lines.jsonl")}}}};
  expect_same_bits_on(job, "packed");
}

TEST_F(DeviceBitsTest, OtherOptimizers) {
  for (const std::string optimizer : {"adam", "sgd"}) {
    expect_same_bits_on({.ranks = 2, .strategy = "zero2", .steps = 3, .optimizer = optimizer},
                        optimizer);
  }
}

TEST_F(DeviceBitsTest, WhatDoesNotRunThereIsRefusedByItsField) {
  TinyJob offloads = {.ranks = 1, .offload_optimizer = "nvme", .nvme_path = folder_.path("")};
  expect_refusal(offloads, "train.offload.optimizer: nothing is offloaded from GPUs yet");
  TinyJob experts = {.ranks = 1};
  experts.more = {
      {"model",
       {{"config",
         {{"model_type", "mixtral"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}}}}}};
  expect_refusal(experts, "train.model: a mixture of experts does not run on GPUs yet");
}

// Even where there is one: it is hidden.
TEST_F(SameBitsTest, WithoutAGpuARankThatIsToldToUseOneEnds) {
  GangOptions gang = options({.ranks = 1}, "none");
  gang.env["LOCKSTEP_DEVICE"] = "cuda";
  gang.env["CUDA_VISIBLE_DEVICES"] = "";
  Gang ranks(gang);
  EXPECT_EQ(ranks.wait().front(), static_cast<int>(ExitCode::kNoDevice)) << ranks.log(0);
  EXPECT_THAT(ranks.last_words(0)->message, HasSubstr("no CUDA device"));
}

}  // namespace
}  // namespace lockstep::equivalence
