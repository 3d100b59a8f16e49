// A small sequence model that our decoder cannot be: dilated causal convolutions, a block without
// parameters, and a recurrent layer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/padding.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

#include "runtime/custom/module_unit.h"

namespace lockstep::runtime {

inline constexpr int64_t kVocab = 37;
inline constexpr int64_t kBatch = 2;
inline constexpr int64_t kSeq = 11;
inline constexpr int64_t kChannels = 18;

// C channels of [B, C, T]; sees nothing of what comes later.
struct CausalConvImpl : torch::nn::Module {
  explicit CausalConvImpl(double dropout_p) : dropout(dropout_p) {
    using torch::nn::Conv1dOptions;
    conv = register_module(
        "conv", torch::nn::Conv1d(Conv1dOptions(kChannels, 2 * kChannels, 3).dilation(2)));
    norm = register_module("norm", torch::nn::GroupNorm(3, kChannels));
  }
  at::Tensor forward(const at::Tensor& x) {
    namespace F = torch::nn::functional;
    const at::Tensor gated = F::glu(conv(F::pad(x, F::PadFuncOptions({4, 0}))), /*dim=*/1);
    return x + norm(F::dropout(gated, F::DropoutFuncOptions().p(dropout).training(is_training())));
  }
  double dropout;
  torch::nn::Conv1d conv{nullptr};
  torch::nn::GroupNorm norm{nullptr};
};
TORCH_MODULE(CausalConv);

// The blocks; weights follow from torch's default generator as it stands.
//   batch: {tokens [B, T + 1]}, and optionally {factor of the loss}
inline std::vector<CustomBlock> byte_model(double dropout) {
  namespace F = torch::nn::functional;
  torch::nn::Embedding embedding(kVocab, kChannels);
  CausalConv conv(dropout);
  torch::nn::GRU gru(torch::nn::GRUOptions(kChannels, 24).batch_first(true));
  torch::nn::Linear head(24, kVocab);
  return {
      {"embedding", embedding.ptr(),
       [embedding](const at::Tensor&, const TensorBatch& batch) mutable {
         return embedding(batch[0].narrow(1, 0, kSeq)).transpose(1, 2);
       }},
      {"conv", conv.ptr(),
       [conv](const at::Tensor& x, const TensorBatch&) mutable { return conv(x); }},
      {"squash", nullptr,
       [](const at::Tensor& x, const TensorBatch&) { return x.tanh().transpose(1, 2); }},
      {"gru", gru.ptr(),
       [gru](const at::Tensor& x, const TensorBatch&) mutable { return std::get<0>(gru(x)); }},
      {"head", head.ptr(),
       [head](const at::Tensor& x, const TensorBatch& batch) mutable {
         const at::Tensor logits = head(x).to(at::kFloat).reshape({-1, kVocab});
         const at::Tensor loss =
             F::cross_entropy(logits, batch[0].narrow(1, 1, kSeq).reshape({-1}),
                              F::CrossEntropyFuncOptions().reduction(torch::kSum));
         return batch.size() > 1 ? loss * batch[1] : loss;
       }},
  };
}

// Tokens of a micro-batch, which follow from its place alone: each is a function of the one before.
inline TensorBatch byte_batch(int64_t step, int64_t micro_batch) {
  at::Tensor tokens = torch::empty({kBatch, kSeq + 1}, at::kLong);
  for (int64_t row = 0; row < kBatch; ++row) {
    int64_t token = (step * 31 + micro_batch * 7 + row * 13) % kVocab;
    for (int64_t t = 0; t <= kSeq; ++t) {
      tokens.index_put_({row, t}, token);
      token = (token * 5 + 3) % kVocab;
    }
  }
  return {tokens};
}

}  // namespace lockstep::runtime
