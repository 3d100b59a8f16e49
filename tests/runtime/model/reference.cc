#include "tests/runtime/model/reference.h"

#include <cmath>

namespace lockstep::runtime::reference {
namespace {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * at::rsqrt(x.pow(2).mean(-1, /*keepdim=*/true) + eps) * weight;
}

// x: [batch, heads, seq, head_dim]; positions: [batch, seq], int64. The angles are rounded to fp32
// as Transformers rounds them, also in a float64 model; they are part of the model, not of the
// rounding under test.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, double theta) {
  const int64_t head_dim = x.size(3);
  const at::Tensor exponents = at::arange(0, head_dim, 2, at::kFloat) / head_dim;
  const at::Tensor frequencies =
      at::pow(at::full({}, theta, at::kDouble), exponents.to(at::kDouble))
          .to(at::kFloat)
          .reciprocal();
  const at::Tensor angles = (positions.to(at::kFloat).unsqueeze(-1) * frequencies).to(at::kDouble);
  const at::Tensor both = at::cat({angles, angles}, -1).unsqueeze(1);  // for all heads
  const at::Tensor first = x.slice(-1, 0, head_dim / 2);
  const at::Tensor second = x.slice(-1, head_dim / 2);
  return x * both.cos() + at::cat({-second, first}, -1) * both.sin();
}

at::Tensor attention(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                     const at::Tensor& x, const at::Tensor& positions) {
  const int64_t batch = x.size(0);
  const int64_t seq = x.size(1);
  const int64_t head_dim = config.head_dim;
  const auto heads_of = [&](const at::Tensor& weight, int64_t num_heads) {
    return at::matmul(x, weight.t()).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
  };
  const int64_t heads = config.num_attention_heads;
  const int64_t kv_heads = config.num_key_value_heads;
  const at::Tensor q = rotary(heads_of(weights[1], heads), positions, config.rope_theta);
  const at::Tensor k = rotary(heads_of(weights[2], kv_heads), positions, config.rope_theta)
                           .repeat_interleave(heads / kv_heads, 1);
  const at::Tensor v = heads_of(weights[3], kv_heads).repeat_interleave(heads / kv_heads, 1);
  const at::Tensor scores =
      at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(head_dim));
  // A row sees the keys from its document's first row to itself.
  const at::Tensor rows = at::arange(seq, at::kLong);
  const at::Tensor first = (rows - positions).unsqueeze(-1);
  const at::Tensor hidden = (rows > rows.unsqueeze(-1)).logical_or(rows < first);
  const at::Tensor probabilities =
      at::softmax(scores.masked_fill(hidden.unsqueeze(1), -INFINITY), /*dim=*/-1);
  const at::Tensor out =
      at::matmul(probabilities, v).transpose(1, 2).reshape({batch, seq, heads * head_dim});
  return at::matmul(out, weights[4].t());
}

}  // namespace

std::vector<at::Tensor> leaves(const Unit& unit, std::span<const float> flat) {
  std::vector<at::Tensor> tensors;
  for (const UnitTensor& tensor : unit.tensors) {
    const auto part =
        flat.subspan(static_cast<size_t>(tensor.begin_elem), static_cast<size_t>(tensor.num_elems));
    tensors.push_back(to_tensor(part, tensor.shape).requires_grad_());
  }
  return tensors;
}

at::Tensor to_tensor(std::span<const float> values, at::IntArrayRef shape) {
  // from_blob takes a mutable pointer; the conversion copies at once.
  return at::from_blob(const_cast<float*>(values.data()), shape, at::kFloat).to(at::kDouble);
}

at::Tensor embedding(const std::vector<at::Tensor>& weights, const at::Tensor& tokens) {
  return at::embedding(weights[0], tokens);
}

at::Tensor decoder_layer(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                         const at::Tensor& x, const at::Tensor& positions) {
  const at::Tensor normed_x = rms_norm(x, weights[0], config.rms_norm_eps);
  const at::Tensor x_mid = x + attention(config, weights, normed_x, positions);
  const at::Tensor normed = rms_norm(x_mid, weights[5], config.rms_norm_eps);
  const at::Tensor gate = at::matmul(normed, weights[6].t());
  const at::Tensor up = at::matmul(normed, weights[7].t());
  return x_mid + at::matmul(at::silu(gate) * up, weights[8].t());
}

at::Tensor head_loss(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                     const at::Tensor& x, const at::Tensor& labels) {
  const at::Tensor logits =
      at::matmul(rms_norm(x, weights[0], config.rms_norm_eps), weights[1].t());
  return at::cross_entropy_loss(logits.reshape({-1, config.vocab_size}), labels, /*weight=*/{},
                                at::Reduction::Sum, /*ignore_index=*/-100);
}

double relative_error(std::span<const float> actual, const at::Tensor& expected) {
  const at::Tensor mine = to_tensor(actual, expected.sizes());
  const double difference = (mine - expected).abs().max().item<double>();
  const double largest = expected.abs().max().item<double>();
  return largest == 0 ? difference : difference / largest;
}

}  // namespace lockstep::runtime::reference
