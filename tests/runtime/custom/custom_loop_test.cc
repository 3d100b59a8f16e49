// Custom loops of real ranks: the same bits however the work is shared, parity with a plain loop of
// torch, what goes wrong, and what goes on from a checkpoint.
#include "runtime/custom/custom_loop.h"

#include <csignal>
#include <fstream>
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
  EXPECT_EQ(run("zero3of2", 2, {{"strategy", "zero3"}, {"evaluateEvery", 1}}), alone);
  EXPECT_EQ(run("zero3of4", 4, {{"strategy", "zero3"}}), alone);
  EXPECT_EQ(run("hybrid", 4, {{"strategy", "zero3"}, {"shardRanks", 2}}), alone);
  EXPECT_NE(run("undropped", 1, {{"dropout", 0.0}}).curve, alone.curve);
}

TEST_F(CustomLoopTest, HasTheSameBitsInBf16AndWithAFrozenBlock) {
  const Left bf16 = run("bf16", 1, {{"bf16", true}});
  EXPECT_EQ(run("bf16-zero3", 2, {{"bf16", true}, {"strategy", "zero3"}}), bf16);
  const Left frozen = run("frozen", 1, {{"fault", "frozen"}});
  EXPECT_EQ(run("frozen-zero2", 2, {{"fault", "frozen"}, {"strategy", "zero2"}}), frozen);
  EXPECT_NE(frozen.model, bf16.model);
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
                    Mistake{"auto", 1, "options.parallelism.strategy is auto"},
                    Mistake{"wire", 1, "options.parallelism: reduceDtype bf16 needs"},
                    Mistake{"fp16", 1, "fp16"}, Mistake{"twice", 1, "forward_backward() after"}),
    [](const auto& mistake) {
      std::string name = mistake.param.fault;
      std::erase(name, '-');
      return name;
    });

}  // namespace
}  // namespace lockstep::runtime
