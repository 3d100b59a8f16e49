// The decoder's blocks written with ATen operations for autograd, in float64: the truth for our
// hand-written backward. Follows Transformers' models of the families.
#pragma once

#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "runtime/common/train_config.h"
#include "runtime/model/block.h"

namespace lockstep::runtime::reference {

// The tensors of a unit as float64 leaves that require gradients.
std::vector<at::Tensor> leaves(const Unit& unit, std::span<const float> flat);

// `values` as a float64 tensor of `shape`.
at::Tensor to_tensor(std::span<const float> values, at::IntArrayRef shape);

at::Tensor embedding(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                     const at::Tensor& tokens, const at::Tensor& positions);

// x: [batch, seq, hidden]. positions: [batch, seq], int64, of tokens in their documents; a document
// sees nothing of another (a block mask). choices: [rows, K], int64, the experts that each token
// takes; undefined: those of the largest probabilities here.
at::Tensor decoder_layer(const common::ModelConfig& config, int64_t index,
                         const std::vector<at::Tensor>& tensors, const at::Tensor& x,
                         const at::Tensor& positions, const at::Tensor& choices = {});

// Sum of the cross-entropy over labels that are not negative.
//   x: [batch, seq, hidden]; labels: [batch * seq], int64.
at::Tensor head_loss(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                     const at::Tensor& x, const at::Tensor& labels);

// The numbers that a head with a score tells of `rows` of x, [rows.size()].
//   x: [batch, seq, hidden]; rows: int64, of batch * seq.
at::Tensor scores(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                  const at::Tensor& x, const at::Tensor& rows);

// As head_loss(), mixed with what a teacher says: see distill() in kernels/elementwise.h.
//   teacher: its logits, [batch * seq, vocab].
at::Tensor distilled_loss(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                          const at::Tensor& x, const at::Tensor& labels, const at::Tensor& teacher,
                          double alpha, double temperature);

// max|actual - expected| / max|expected|; max|actual| where all of `expected` is zero.
double relative_error(std::span<const float> actual, const at::Tensor& expected);

}  // namespace lockstep::runtime::reference
