// A rank of a custom loop for tests; CUSTOM_JOB holds what it does, as JSON.
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <torch/utils.h>
#include <unistd.h>

#include "runtime/common/choose_strategy.h"
#include "runtime/custom/custom_loop.h"
#include "runtime/train/status_board.h"
#include "tests/runtime/custom/byte_model.h"

namespace lockstep::runtime {
namespace {

using nlohmann::json;

constexpr double kLr = 1e-2;

// Two parameters of one size, in the order given.
struct ScaleImpl : torch::nn::Module {
  explicit ScaleImpl(const std::string& order) {
    for (const char name : order) {
      const std::string key(1, name);
      register_parameter(key, torch::full({24}, name == 'a' ? 1.0 : 0.125));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    return x * named_parameters()["a"] + named_parameters()["b"];
  }
};
TORCH_MODULE(Scale);

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
  options.optimizer.lr = kLr;
  options.optimizer.decay_matrices_only = false;
  options.non_finite.max_consecutive_skips = job.value("skips", 0);
  options.checkpoint.every_steps = job.value("checkpointEvery", 0);
  options.checkpoint.async = false;  // a step that is over is saved
  options.log_every_steps = 1;
  return options;
}

// Freezes the first two blocks. The last one looks whether what came out of the first is still held
// when backward comes to it.
void watch_first_output(std::vector<CustomBlock>& blocks) {
  for (const size_t frozen : {size_t{0}, size_t{1}}) {
    for (const at::Tensor& parameter : blocks[frozen].module->parameters()) {
      parameter.set_requires_grad(false);
    }
  }
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  const auto seen = std::make_shared<std::optional<Weak>>();
  const BlockFunction second = blocks[1].function;
  blocks[1].function = [seen, second](const at::Tensor& x, const TensorBatch& batch) {
    seen->emplace(x.getIntrusivePtr());
    return second(x, batch);
  };
  const BlockFunction last = blocks.back().function;
  blocks.back().function = [seen, last](const at::Tensor& x, const TensorBatch& batch) {
    if (!seen->value().expired()) throw std::logic_error("the output of a frozen block is held");
    return last(x, batch);
  };
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
  if (fault == "held") watch_first_output(blocks);
  if (fault == "nothing-to-train") {
    for (CustomBlock& block : blocks) block.module = nullptr;
  }
}

void disturb(const json& job, int rank, int64_t step) {
  if (rank != job.value("atRank", 0) || step != job.value("atStep", -1)) return;
  kill(getpid(), job.value("signal", SIGTERM));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it comes on another thread
}

// The losses of four micro-batches, which the ranks share, as a line at the end of `file`.
void evaluate(CustomLoop& loop, const CustomRank& rank, const std::string& file) {
  std::string line;
  for (int64_t first = 0; first < 4; first += rank.env().world_size) {
    const double mine = loop.evaluate(byte_batch(1000, first + rank.env().rank));
    for (const double sum : loop.gather(mine)) line += with_all_digits(sum) + " ";
  }
  if (rank.env().rank == 0) std::ofstream(file, std::ios::app) << line << "\n";
}

void train(CustomRank& rank, const json& job) {
  torch::manual_seed(7);
  const std::string fault = job.value("fault", "");
  std::vector<CustomBlock> blocks = byte_model(job.value("dropout", 0.2));
  spoil(blocks, fault, rank.env().rank);
  if (job.contains("scale")) {
    Scale scale(job["scale"].get<std::string>());
    blocks.insert(blocks.end() - 1,
                  {"scale", scale.ptr(),
                   [scale](const at::Tensor& x, const TensorBatch&) mutable { return scale(x); }});
  }
  CustomLoopOptions options = options_of(job);
  if (fault == "auto") options.parallelism.strategy = common::Strategy::kAuto;
  if (fault == "wire") options.parallelism.reduce_dtype = DType::kBf16;
  if (fault == "fp16") options.precision = DType::kFp16;
  if (fault == "bucket") options.parallelism.bucket_bytes = 0;
  if (fault == "momentum") options.optimizer.momentum = 0.9;
  if (fault == "betas") options.optimizer.beta1 = 1;
  if (fault == "eps") options.optimizer.eps = NAN;
  if (fault == "bounds") options.steps = options.checkpoint.keep = options.log_every_steps = 0;
  CustomLoop& loop = rank.prepare(std::move(blocks), options);
  while (!loop.is_done()) {
    for (const int64_t index : loop.micro_batches()) {
      disturb(job, rank.env().rank, loop.step());
      std::this_thread::sleep_for(std::chrono::milliseconds(job.value("dataMillis", 0)));
      TensorBatch batch = byte_batch(loop.step(), index);
      if (fault == "nan" && loop.step() == 2 && index == 1) batch.push_back(at::full({}, NAN));
      loop.forward_backward(batch, kBatch * kSeq - (job.value("uneven", false) ? loop.step() : 0));
      if (fault == "finish") loop.finish();
      if (fault == "twice") loop.forward_backward(batch, kBatch * kSeq);
    }
    if (fault == "lr") loop.update(NAN);
    job.value("optionsLr", false) ? loop.update() : loop.update(kLr);
    if (job.contains("evaluateInto")) evaluate(loop, rank, job["evaluateInto"]);
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
