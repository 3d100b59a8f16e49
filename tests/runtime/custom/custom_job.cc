// A rank of a custom loop for tests; CUSTOM_JOB holds what it does, as JSON.
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <torch/utils.h>
#include <unistd.h>

#include "runtime/common/choose_strategy.h"
#include "runtime/custom/custom_loop.h"
#include "tests/runtime/custom/byte_model.h"

namespace lockstep::runtime {
namespace {

using nlohmann::json;

CustomLoopOptions options_of(const json& job) {
  CustomLoopOptions options;
  options.steps = job.value("steps", 4);
  options.num_micro_batches = job.value("microBatches", 4);
  options.parallelism.strategy = *common::strategy_named(job.value("strategy", "ddp"));
  options.parallelism.shard_ranks = job.value("shardRanks", 0);
  if (job.value("gloo", false)) {
    options.communication.backend = common::CommunicationConfig::Backend::kGloo;
  }
  if (job.value("bf16", false)) options.precision = DType::kBf16;
  options.optimizer.lr = 1e-2;
  options.optimizer.decay_matrices_only = false;
  options.non_finite.max_consecutive_skips = job.value("skips", 0);
  options.checkpoint.every_steps = job.value("checkpointEvery", 0);
  options.log_every_steps = 1;
  return options;
}

// What a user may do wrong.
void spoil(std::vector<CustomBlock>& blocks, const std::string& fault, int rank) {
  if (fault == "shared") {
    blocks.insert(blocks.end() - 1, {"tied", blocks.back().module, blocks[2].function});
  }
  if (fault == "names") blocks[1].name = "head";
  if (fault == "no-loss") blocks.pop_back();
  if (fault == "weights" && rank == 1) {
    const at::NoGradGuard no_graph;
    blocks[3].module->parameters()[0].view(-1)[5] += 1e-6F;
  }
  if (fault == "shapes") {
    blocks[2].function = [](const at::Tensor& x, const TensorBatch&) { return x.tanh(); };
  }
  if (fault == "frozen") {
    for (const at::Tensor& parameter : blocks[0].module->parameters()) {
      parameter.set_requires_grad(false);
    }
  }
  if (fault == "nothing-to-train") {
    for (CustomBlock& block : blocks) block.module = nullptr;
  }
}

void disturb(const json& job, int rank, int64_t step) {
  if (rank != job.value("atRank", 0) || step != job.value("atStep", -1)) return;
  kill(getpid(), job.value("signal", SIGTERM));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it comes on another thread
}

void train(CustomRank& rank, const json& job) {
  torch::manual_seed(7);
  const std::string fault = job.value("fault", "");
  std::vector<CustomBlock> blocks = byte_model(job.value("dropout", 0.2));
  spoil(blocks, fault, rank.env().rank);
  CustomLoopOptions options = options_of(job);
  if (fault == "auto") options.parallelism.strategy = common::Strategy::kAuto;
  if (fault == "wire") options.parallelism.reduce_dtype = DType::kBf16;
  if (fault == "fp16") options.precision = DType::kFp16;
  CustomLoop& loop = rank.prepare(std::move(blocks), options);
  while (!loop.is_done()) {
    for (const int64_t index : loop.micro_batches()) {
      disturb(job, rank.env().rank, loop.step());
      TensorBatch batch = byte_batch(loop.step(), index);
      if (fault == "nan" && loop.step() == 2 && index == 1) batch.push_back(at::full({}, NAN));
      loop.forward_backward(batch, kBatch * kSeq);
      if (fault == "twice") loop.forward_backward(batch, kBatch * kSeq);
    }
    loop.update(options.optimizer.lr);
    if (job.contains("evaluateEvery")) {
      const double sum = loop.evaluate(byte_batch(1000, rank.env().rank));
      if (loop.gather(sum).size() != static_cast<size_t>(rank.env().world_size)) std::abort();
    }
  }
  loop.finish();
}

}  // namespace
}  // namespace lockstep::runtime

int main() {
  lockstep::runtime::run_custom_rank([](lockstep::runtime::CustomRank& rank) {
    const char* const text = std::getenv("CUSTOM_JOB");
    lockstep::runtime::train(rank, nlohmann::json::parse(text == nullptr ? "{}" : text));
  });
}
