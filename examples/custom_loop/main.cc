// An architecture in one file: gated dilated convolutions and a recurrent layer over bytes, which
// the runtime's own decoder cannot be, trained under any strategy by a loop of our own.
//   arguments: NAME=VALUE, see Settings
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/nn.h>
#include <torch/utils.h>

#include "runtime/common/choose_strategy.h"
#include "runtime/custom/custom_loop.h"
#include "runtime/optim/schedule.h"
#include "runtime/train/run_error.h"

namespace {

namespace F = torch::nn::functional;
using lockstep::common::ExitCode;
using lockstep::runtime::CustomBlock;
using lockstep::runtime::CustomLoop;
using lockstep::runtime::CustomRank;
using lockstep::runtime::RunError;
using lockstep::runtime::TensorBatch;
using torch::Tensor;

constexpr int64_t kBytes = 256;
constexpr int64_t kBatch = 4;      // samples of a micro-batch
constexpr int64_t kTime = 48;      // bytes of a sample
constexpr int64_t kChannels = 48;  // of the stream between blocks, [batch, channels, time]

// x + dropout(gate(conv(x))), where a place sees itself and what came before.
struct GatedConvImpl : torch::nn::Module {
  explicit GatedConvImpl(int64_t dilation)
      : padding(2 * dilation),
        conv(register_module(
            "conv", torch::nn::Conv1d(
                        torch::nn::Conv1dOptions(kChannels, 2 * kChannels, 3).dilation(dilation)))),
        norm(register_module("norm", torch::nn::GroupNorm(4, kChannels))),
        dropout(register_module("dropout", torch::nn::Dropout(0.1))) {}
  Tensor forward(const Tensor& x) {
    const Tensor padded = F::pad(norm(x), F::PadFuncOptions({padding, 0}));
    return x + dropout(F::glu(conv(padded), F::GLUFuncOptions(1)));
  }
  int64_t padding;
  torch::nn::Conv1d conv;
  torch::nn::GroupNorm norm;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(GatedConv);

// Each block is a unit: what zero3 gathers before it is needed and frees after.
std::vector<CustomBlock> make_blocks() {
  torch::nn::Embedding embedding(kBytes, kChannels);
  torch::nn::GRU gru(torch::nn::GRUOptions(kChannels, kChannels).batch_first(true));
  torch::nn::Linear head(kChannels, kBytes);
  std::vector<CustomBlock> blocks;
  blocks.push_back(
      {"embedding", embedding.ptr(), [=](const Tensor&, const TensorBatch& batch) mutable {
         return embedding(batch[0]).transpose(1, 2);
       }});
  for (const int64_t dilation : {1, 3, 9}) {
    GatedConv conv(dilation);
    blocks.push_back({"conv" + std::to_string(dilation), conv.ptr(),
                      [=](const Tensor& x, const TensorBatch&) mutable { return conv(x); }});
  }
  blocks.push_back({"gru", gru.ptr(), [=](const Tensor& x, const TensorBatch&) mutable {
                      return std::get<0>(gru(x.transpose(1, 2)));
                    }});
  // The last block returns the sum of the loss.
  blocks.push_back({"head", head.ptr(), [=](const Tensor& x, const TensorBatch& batch) mutable {
                      return F::cross_entropy(head(x).to(torch::kFloat).flatten(0, 1),
                                              batch[1].flatten(),
                                              F::CrossEntropyFuncOptions().reduction(torch::kSum));
                    }});
  return blocks;
}

// Micro-batch `index` of `step`: a function of these two, so that a resumed run goes on where it
// was, on any number of ranks.
TensorBatch make_batch(const std::string& text, int64_t step, int64_t index) {
  Tensor bytes = torch::empty({kBatch, kTime + 1}, torch::kLong);
  auto values = bytes.accessor<int64_t, 2>();
  for (int64_t row = 0; row < kBatch; ++row) {
    const auto place = static_cast<uint64_t>((step * 1000 + index) * kBatch + row);
    const uint64_t begin = place * 0x9e3779b97f4a7c15U % (text.size() - kTime);
    for (int64_t t = 0; t <= kTime; ++t) {
      values[row][t] = static_cast<unsigned char>(text[begin + static_cast<uint64_t>(t)]);
    }
  }
  return {bytes.narrow(1, 0, kTime), bytes.narrow(1, 1, kTime)};
}

using Settings = std::map<std::string, std::string>;

Settings read_settings(int argc, char** argv) {
  Settings settings = {
      {"strategy", "ddp"}, {"shardRanks", "0"}, {"steps", "60"}, {"text", "README.md"}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const auto setting = settings.find(argument.substr(0, equals));
    if (setting == settings.end() || equals == std::string::npos) {
      throw RunError({ExitCode::kInvalidConfig, "the argument '" + argument + "' is unknown",
                      "give NAME=VALUE; names: shardRanks, steps, strategy, text"});
    }
    setting->second = argument.substr(equals + 1);
  }
  return settings;
}

void train(CustomRank& rank, const Settings& settings) {
  std::ifstream file(settings.at("text"));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  TORCH_CHECK(text.size() > kTime, settings.at("text"), ": expected a text, found ", text.size(),
              " bytes");

  torch::manual_seed(1);  // the same first weights on every rank
  lockstep::runtime::CustomLoopOptions options;
  options.steps = std::stoll(settings.at("steps"));
  options.num_micro_batches = 8;
  options.parallelism.strategy = lockstep::common::strategy_named(settings.at("strategy")).value();
  options.parallelism.shard_ranks = std::stoll(settings.at("shardRanks"));
  options.checkpoint.every_steps = 20;
  CustomLoop& loop = rank.prepare(make_blocks(), options);

  const lockstep::common::ScheduleConfig schedule{.warmup_steps = 5,
                                                  .decay_steps = options.steps - 5};
  while (!loop.is_done()) {
    for (const int64_t index : loop.micro_batches()) {
      loop.forward_backward(make_batch(text, loop.step(), index), kBatch * kTime);
    }
    loop.update(lockstep::runtime::lr_at(schedule, 1e-2, loop.step() + 1, options.steps));
  }
  loop.finish();
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::runtime::run_custom_rank(
      [&](CustomRank& rank) { train(rank, read_settings(argc, argv)); });
}
