// Custom loops of real ranks: the same bits however the work is shared, parity with a plain loop of
// torch, what goes wrong, and what goes on from a checkpoint.
#include "runtime/custom/custom_loop.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <ostream>
#include <span>

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/runtime/custom/byte_model.h"
#include "tests/support/paths.h"
#include "tests/support/rank_processes.h"
#include "tests/support/tiny_job.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using nlohmann::json;
using support::Gang;
using support::read_text;

constexpr int kSucceeded = 0;

// What a run leaves that must not depend on how it was shared.
struct Left {
  std::vector<std::string> curve;  // of losses and norms, with all digits
  std::string model;
  bool operator==(const Left&) const = default;
};

class CustomLoopTest : public testing::Test {
 protected:
  support::GangOptions gang(const std::string& name, int ranks, const json& job,
                            int attempt = 0) const {
    return {.runtime = support::kCustomJob,
            .job = {{"name", "custom"}, {"ranks", ranks}, {"train", nullptr}},
            .folder = folder_.path(name + "-logs"),
            .output = folder_.path(name),
            .num_ranks = ranks,
            .attempt = attempt,
            .env = {{"CUSTOM_JOB", job.dump()}}};
  }
  Left left(const std::string& name) const {
    return {support::read_curve(folder_.path(name)),
            read_text(folder_.path(name) + "/model/model.safetensors")};
  }
  Left run(const std::string& name, int ranks, const json& job) const {
    Gang all(gang(name, ranks, job));
    EXPECT_EQ(all.wait(), std::vector<int>(static_cast<size_t>(ranks), kSucceeded)) << name << "\n"
                                                                                    << all.log(0);
    return left(name);
  }

  // The tensor of an exported model, of the shape of `like`.
  at::Tensor exported(const std::string& name, const std::string& tensor,
                      const at::Tensor& like) const {
    const auto reader =
        SafetensorsReader::open(folder_.path(name) + "/model/model.safetensors").value();
    at::Tensor values = at::empty(like.sizes(), at::kFloat);
    const std::span<float> out(values.data_ptr<float>(), static_cast<size_t>(values.numel()));
    EXPECT_TRUE(reader.read(reader.tensors().at(tensor), 0, std::as_writable_bytes(out)));
    return values;
  }
  std::vector<json> metrics(const std::string& name) const {
    std::vector<json> lines;
    std::ifstream file(folder_.path(name) + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }

  support::TemporaryFolder folder_;
};

TEST_F(CustomLoopTest, HasTheSameBitsOnAnyRanksAndStrategy) {
  const Left alone = run("alone", 1, json::object());
  ASSERT_EQ(alone.curve.size(), 4u);
  ASSERT_GT(alone.model.size(), 4000u);
  EXPECT_EQ(run("ddp2", 2, {{"strategy", "ddp"}}), alone);
  EXPECT_EQ(run("ddp4", 4, {{"strategy", "ddp"}, {"gloo", true}}), alone);
  EXPECT_EQ(run("zero1", 2, {{"strategy", "zero1"}}), alone);
  EXPECT_EQ(run("zero2", 4, {{"strategy", "zero2"}}), alone);
  EXPECT_EQ(run("zero3of1", 1, {{"strategy", "zero3"}}), alone);
  EXPECT_EQ(run("zero3of2", 2, {{"strategy", "zero3"}}), alone);
  EXPECT_EQ(run("zero3of4", 4, {{"strategy", "zero3"}}), alone);
  EXPECT_EQ(run("hybrid", 4, {{"strategy", "zero3"}, {"shardRanks", 2}}), alone);
  EXPECT_NE(run("undropped", 1, {{"dropout", 0.0}}).curve, alone.curve);
}

TEST_F(CustomLoopTest, HasTheSameBitsInBf16AndWithAFrozenBlock) {
  const Left bf16 = run("bf16", 1, {{"bf16", true}});
  EXPECT_EQ(run("bf16-zero3", 2, {{"bf16", true}, {"strategy", "zero3"}}), bf16);
  const Left frozen = run("frozen", 1, {{"fault", "frozen"}});
  EXPECT_EQ(run("frozen-zero2", 2, {{"fault", "frozen"}, {"strategy", "zero2"}}), frozen);
  EXPECT_NE(bf16.model, run("fp32", 1, json::object()).model);

  torch::manual_seed(7);
  const std::vector<CustomBlock> before = byte_model(/*dropout=*/0.2);
  const auto is_as_before = [&](size_t block, const std::string& tensor) {
    const at::Tensor first = before[block].module->named_parameters()[tensor];
    return torch::equal(exported("frozen", before[block].name + "." + tensor, first), first);
  };
  EXPECT_TRUE(is_as_before(0, "weight"));
  EXPECT_FALSE(is_as_before(1, "conv.weight"));
  EXPECT_FALSE(is_as_before(4, "weight"));
}

TEST_F(CustomLoopTest, EvaluatesToTheSameBitsHoweverTheRanksShareIt) {
  const auto evaluations = [&](const std::string& name, int ranks, const std::string& strategy) {
    const std::string file = folder_.path(name + "-evaluations");
    run(name, ranks, {{"strategy", strategy}, {"steps", 2}, {"evaluateInto", file}});
    return read_text(file);
  };
  const std::string alone = evaluations("alone", 1, "ddp");
  EXPECT_EQ(std::count(alone.begin(), alone.end(), ' '), 2 * 4) << alone;
  EXPECT_EQ(evaluations("zero2", 4, "zero2"), alone);
  EXPECT_EQ(evaluations("zero3", 2, "zero3"), alone);
}

TEST_F(CustomLoopTest, WhatFrozenBlocksBringForthIsNotHeldForBackward) {
  run("held", 1, {{"fault", "held"}, {"steps", 1}});
}

TEST_F(CustomLoopTest, UpdatesWithTheOptionsLearningRateUnlessGivenOne) {
  EXPECT_EQ(run("options", 1, {{"optionsLr", true}}), run("given", 1, json::object()));
}

// Losses of the same steps in a plain loop of torch, one process, AdamW and clipping as torch has
// them; then the weights by name.
struct Plain {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> weights;
};

Plain train_plainly(int64_t steps, int64_t num_micro_batches) {
  torch::manual_seed(7);
  const std::vector<CustomBlock> blocks = byte_model(/*dropout=*/0);
  Plain plain;
  std::vector<at::Tensor> parameters;
  for (const CustomBlock& block : blocks) {
    if (!block.module) continue;
    for (const auto& item : block.module->named_parameters()) {
      plain.weights[block.name + "." + item.key()] = item.value();
      parameters.push_back(item.value());
    }
  }
  torch::optim::AdamW optimizer(
      parameters, torch::optim::AdamWOptions(1e-2).betas({0.9, 0.95}).eps(1e-8).weight_decay(0.1));
  const auto items = static_cast<double>(num_micro_batches * kBatch * kSeq);
  for (int64_t step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    double sum = 0;
    for (int64_t index = 0; index < num_micro_batches; ++index) {
      at::Tensor x;
      for (const CustomBlock& block : blocks) x = block.function(x, byte_batch(step, index));
      (x / items).backward();
      sum += x.item<double>();
    }
    torch::nn::utils::clip_grad_norm_(parameters, 1.0);
    optimizer.step();
    plain.losses.push_back(sum / items);
  }
  return plain;
}

TEST_F(CustomLoopTest, AgreesWithAPlainLoopOfTorch) {
  constexpr int64_t kSteps = 8;
  run("ours", 2, {{"strategy", "zero3"}, {"dropout", 0.0}, {"steps", kSteps}});
  const Plain plain = train_plainly(kSteps, 4);
  std::ifstream metrics(folder_.path("ours") + "/metrics.jsonl");
  std::string line;
  for (const double expected : plain.losses) {
    ASSERT_TRUE(std::getline(metrics, line));
    EXPECT_NEAR(json::parse(line)["loss"].get<double>(), expected, 1e-5 * expected);
  }
  EXPECT_LT(plain.losses.back(), 0.95 * plain.losses.front());
  const auto reader =
      SafetensorsReader::open(folder_.path("ours") + "/model/model.safetensors").value();
  ASSERT_EQ(reader.tensors().size(), plain.weights.size());
  for (const auto& [name, weight] : plain.weights) {
    const at::Tensor ours = at::empty(weight.sizes(), at::kFloat);
    const std::span<float> values(ours.data_ptr<float>(), static_cast<size_t>(ours.numel()));
    ASSERT_TRUE(reader.read(reader.tensors().at(name), 0, std::as_writable_bytes(values)));
    const double error = (ours - weight).abs().max().item<double>();
    // Adam divides by the root of the second moment: where a gradient is almost nothing, its
    // rounding is an update of full size. Hence an absolute bound, of a tenth of one update.
    EXPECT_LT(error, 1e-3) << name;
  }
}

TEST_F(CustomLoopTest, ASigtermSavesTheStepAndOtherRanksGoOnWithTheSameBits) {
  const Left undisturbed = run("undisturbed", 1, {{"steps", 6}});
  {
    Gang stopped(
        gang("stopped", 2, {{"steps", 6}, {"strategy", "zero2"}, {"atStep", 2}, {"atRank", 1}}));
    EXPECT_EQ(stopped.wait(), std::vector<int>(2, static_cast<int>(ExitCode::kPreempted)))
        << stopped.log(0);
    EXPECT_TRUE(stopped.last_words(0)->message.starts_with("asked to stop; saved step "));
  }
  Gang resumed(gang("stopped", 4, {{"steps", 6}, {"strategy", "zero3"}}, /*attempt=*/1));
  EXPECT_EQ(resumed.wait(), std::vector<int>(4, kSucceeded)) << resumed.log(0);
  EXPECT_NE(resumed.log(0).find(" resumed "), std::string::npos);
  EXPECT_EQ(left("stopped"), undisturbed);
}

TEST_F(CustomLoopTest, ACrashedRunGoesOnFromItsLastCheckpointWithTheSameBitsAndCounts) {
  const json job = {{"steps", 6}, {"uneven", true}};
  const Left undisturbed = run("undisturbed", 1, job);
  json crashing = job;
  crashing.update({{"checkpointEvery", 2}, {"atStep", 5}, {"signal", SIGKILL}});
  Gang crashed(gang("crashed", 1, crashing));
  EXPECT_EQ(crashed.wait(), std::vector<int>{-SIGKILL});
  json going_on = job;
  going_on.update({{"checkpointEvery", 2}, {"strategy", "zero3"}});
  Gang resumed(gang("crashed", 2, going_on, /*attempt=*/1));
  EXPECT_EQ(resumed.wait(), std::vector<int>(2, kSucceeded)) << resumed.log(0);
  EXPECT_NE(resumed.log(0).find(" resumed "), std::string::npos);
  EXPECT_NE(resumed.log(0).find("step=4 "), std::string::npos) << resumed.log(0);
  EXPECT_EQ(left("crashed"), undisturbed);
  for (const char* const name : {"undisturbed", "crashed"}) {
    int64_t items = 0;
    const std::vector<json> lines = metrics(name);
    ASSERT_EQ(lines.size(), 6u);
    for (int64_t step = 0; step < 6; ++step) {
      items += 4 * (kBatch * kSeq - step);
      EXPECT_EQ(lines[static_cast<size_t>(step)].at("tokens"), items) << name;
    }
  }
}

TEST_F(CustomLoopTest, TheMakingOfABatchIsOfTheStepAndAnUnknownCostIsNotTold) {
  run("slow", 1, {{"steps", 2}, {"microBatches", 1}, {"dataMillis", 30}});
  for (const json& line : metrics("slow")) {
    EXPECT_GE(line.at("data_seconds").get<double>(), 0.03) << line;
    EXPECT_FALSE(line.contains("flops_per_second"));
  }
}

TEST_F(CustomLoopTest, ARankWithoutItsJobFileSaysWhichRankItIs) {
  support::GangOptions options = gang("early", 2, json::object());
  options.env["LOCKSTEP_JOB"] = folder_.path("no-job.json");
  Gang ranks(options);
  EXPECT_EQ(ranks.wait(), std::vector<int>(2, static_cast<int>(ExitCode::kInputNotFound)));
  EXPECT_NE(ranks.log(1).find("rank=1"), std::string::npos) << ranks.log(1);
  ASSERT_TRUE(ranks.last_words(1));
  EXPECT_NE(ranks.last_words(1)->message.find("no-job.json"), std::string::npos);
}

TEST_F(CustomLoopTest, AJobForOtherRanksIsRefused) {
  support::GangOptions options = gang("others", 1, json::object());
  options.job["ranks"] = 3;
  Gang ranks(options);
  EXPECT_EQ(ranks.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidConfig)});
  EXPECT_NE(ranks.last_words(0)->message.find("the job is for 3 ranks"), std::string::npos);
}

// Names, shapes and the sizes of units are the same.
TEST_F(CustomLoopTest, AModelWhoseParametersChangePlacesDoesNotGoOnFromACheckpoint) {
  Gang first(gang("out", 1, {{"atStep", 1}, {"scale", "ab"}}));
  EXPECT_EQ(first.wait(), std::vector<int>{static_cast<int>(ExitCode::kPreempted)});
  Gang second(gang("out", 1, {{"scale", "ba"}}, 1));
  EXPECT_EQ(second.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidConfig)});
  EXPECT_NE(second.last_words(0)->message.find("train.model.custom was "), std::string::npos)
      << second.last_words(0)->message;
}

TEST_F(CustomLoopTest, AnotherModelDoesNotGoOnFromACheckpoint) {
  Gang first(gang("out", 1, {{"atStep", 1}}));
  EXPECT_EQ(first.wait(), std::vector<int>{static_cast<int>(ExitCode::kPreempted)});
  Gang second(gang("out", 1, {{"microBatches", 2}}, 1));
  EXPECT_EQ(second.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidConfig)});
  EXPECT_NE(second.last_words(0)->message.find("train.batch was {\"microBatches\":4} and is"),
            std::string::npos)
      << second.last_words(0)->message;
}

TEST_F(CustomLoopTest, ARankThatDiesIsNamedByTheOthers) {
  Gang ranks(
      gang("dead", 2, {{"strategy", "zero3"}, {"atStep", 1}, {"atRank", 1}, {"signal", SIGKILL}}));
  EXPECT_EQ(ranks.wait(), (std::vector<int>{static_cast<int>(ExitCode::kPeerLost), -SIGKILL}));
  EXPECT_NE(ranks.last_words(0)->message.find("rank 1"), std::string::npos);
}

TEST_F(CustomLoopTest, AStepThatIsNotFiniteIsSkippedOrEndsTheRun) {
  const Left skipped = run("skipped", 1, {{"fault", "nan"}, {"skips", 1}});
  EXPECT_EQ(run("skipped2", 2, {{"fault", "nan"}, {"skips", 1}, {"strategy", "zero3"}}).model,
            skipped.model);
  Gang ended(gang("ended", 2, {{"fault", "nan"}}));
  EXPECT_EQ(ended.wait(), (std::vector<int>{static_cast<int>(ExitCode::kNonFinite),
                                            static_cast<int>(ExitCode::kPeerLost)}));
  EXPECT_NE(ended.last_words(0)->message.find("the loss of micro-batch 1 at step 3"),
            std::string::npos);
}

struct Mistake {
  std::string fault;
  int ranks = 1;
  std::string message;  // a part of it
};
void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.fault;
}

class MistakeTest : public CustomLoopTest, public testing::WithParamInterface<Mistake> {};

TEST_P(MistakeTest, IsRefusedByName) {
  Gang ranks(gang("refused", GetParam().ranks, {{"fault", GetParam().fault}}));
  const std::vector<int> codes = ranks.wait();
  EXPECT_EQ(codes[0], static_cast<int>(ExitCode::kInvalidConfig)) << ranks.log(0);
  ASSERT_TRUE(ranks.last_words(0));
  EXPECT_NE(ranks.last_words(0)->message.find(GetParam().message), std::string::npos)
      << ranks.last_words(0)->message;
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, MistakeTest,
    testing::Values(Mistake{"shared", 1, "tied.weight and head.weight share their memory"},
                    Mistake{"names", 1, "two blocks are named 'head'"},
                    Mistake{"no-loss", 1, "block 'gru' is the last: it must return the sum"},
                    Mistake{"weights", 2, "block 'gru': the first weights of rank 1 differ"},
                    Mistake{"shapes", 1, "block 'gru': "},
                    Mistake{"nothing-to-train", 1, "no block has a parameter to train"},
                    Mistake{"auto", 1, "options.parallelism.strategy: is auto"},
                    Mistake{"wire", 1, "options.parallelism.reduce_dtype: bf16 needs"},
                    Mistake{"fp16", 1, "fp16"},
                    Mistake{"bucket", 1, "options.parallelism.bucket_bytes: must be from 64Ki"},
                    Mistake{"momentum", 1, "options.optimizer.momentum: is of sgd only"},
                    Mistake{"betas", 1, "options.optimizer.beta1: must be less than 1"},
                    Mistake{"eps", 1, "options.optimizer.eps: must be a finite number"},
                    Mistake{"bounds", 1, "options.checkpoint.keep: must be at least 1, found 0"},
                    Mistake{"lr", 1, "update() with a learning rate of nan"},
                    Mistake{"finish", 1, "finish() after 1 of 4 micro-batches"},
                    Mistake{"twice", 1, "forward_backward() after"}),
    [](const auto& mistake) {
      std::string name = mistake.param.fault;
      std::erase(name, '-');
      return name;
    });

}  // namespace
}  // namespace lockstep::runtime
