#include "tests/runtime/model/reference.h"

#include <cmath>

#include "runtime/common/model_family.h"

namespace lockstep::runtime::reference {
namespace {

using common::TensorRole;

// The weights of a layer by what they do.
struct LayerWeights {
  const Unit& unit;
  const std::vector<at::Tensor>& tensors;
  bool is_in_by_out;

  // Those of a role as one; undefined if there is none.
  at::Tensor of(TensorRole role) const {
    std::vector<at::Tensor> found;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (unit.tensors[i].role == role) found.push_back(tensors[i]);
    }
    return found.empty() ? at::Tensor() : at::cat(found, 0);
  }
  at::Tensor product(const at::Tensor& x, TensorRole weight, TensorRole bias) const {
    const at::Tensor matrix = of(weight);
    const at::Tensor y = at::matmul(x, is_in_by_out ? matrix : matrix.t());
    const at::Tensor added = of(bias);
    return added.defined() ? y + added : y;
  }
};

at::Tensor norm(const common::ModelConfig& config, const at::Tensor& x, const at::Tensor& weight,
                const at::Tensor& bias) {
  const common::NormKind kind = common::family_of(config).norm;
  const double eps = config.rms_norm_eps;
  if (kind == common::NormKind::kLayer) {
    const at::Tensor centred = x - x.mean(-1, /*keepdim=*/true);
    const at::Tensor variance = centred.pow(2).mean(-1, /*keepdim=*/true);
    return centred * at::rsqrt(variance + eps) * weight + bias;
  }
  const at::Tensor normed = x * at::rsqrt(x.pow(2).mean(-1, /*keepdim=*/true) + eps);
  return normed * (kind == common::NormKind::kRmsOnePlus ? weight + 1 : weight);
}

// x: [batch, heads, seq, head_dim]; positions: [batch, seq], int64. The angles are rounded to fp32
// as Transformers rounds them, also in a float64 model; they are part of the model, not of the
// rounding under test.
at::Tensor rotary(const at::Tensor& whole, const at::Tensor& positions, double theta,
                  int64_t rotary_dim) {
  const at::Tensor x = whole.slice(-1, 0, rotary_dim);
  const at::Tensor exponents = at::arange(0, rotary_dim, 2, at::kFloat) / rotary_dim;
  const at::Tensor frequencies =
      at::pow(at::full({}, theta, at::kDouble), exponents.to(at::kDouble))
          .to(at::kFloat)
          .reciprocal();
  const at::Tensor angles = (positions.to(at::kFloat).unsqueeze(-1) * frequencies).to(at::kDouble);
  const at::Tensor both = at::cat({angles, angles}, -1).unsqueeze(1);  // for all heads
  const at::Tensor first = x.slice(-1, 0, rotary_dim / 2);
  const at::Tensor second = x.slice(-1, rotary_dim / 2);
  const at::Tensor turned = x * both.cos() + at::cat({-second, first}, -1) * both.sin();
  return at::cat({turned, whole.slice(-1, rotary_dim)}, -1);
}

// Probabilities of scores [batch, heads, seq, seq]: a row sees the keys from its document's first
// row, or its window's, to itself.
at::Tensor probabilities(const common::ModelConfig& config, int64_t window,
                         const at::Tensor& products, const at::Tensor& positions) {
  const double given = config.attention_scale();
  const double scale = given > 0 ? given : 1 / std::sqrt(static_cast<double>(config.head_dim));
  at::Tensor scores = products * scale;
  if (config.attention_softcap > 0) {
    scores = at::tanh(scores / config.attention_softcap) * config.attention_softcap;
  }
  const at::Tensor rows = at::arange(products.size(2), at::kLong);
  const at::Tensor first = (rows - positions).unsqueeze(-1);
  at::Tensor hidden = (rows > rows.unsqueeze(-1)).logical_or(rows < first);
  if (window > 0) hidden = hidden.logical_or(rows <= rows.unsqueeze(-1) - window);
  return at::softmax(scores.masked_fill(hidden.unsqueeze(1), -INFINITY), /*dim=*/-1);
}

at::Tensor attention(const common::ModelConfig& config, const LayerWeights& weights, int64_t index,
                     const at::Tensor& x, const at::Tensor& positions) {
  const common::ModelFamily& family = common::family_of(config);
  const int64_t batch = x.size(0);
  const int64_t seq = x.size(1);
  const int64_t heads = config.num_attention_heads;
  const int64_t kv_heads = config.num_key_value_heads;
  const int64_t window = config.window_of(index);
  const bool is_local = window > 0 && config.rope_local_theta > 0;
  const double theta = is_local ? config.rope_local_theta : config.rope_theta;
  const at::Tensor qkv = weights.product(x, TensorRole::kQkv, TensorRole::kQkvBias);
  const auto heads_of = [&](int64_t begin, int64_t num_heads, const at::Tensor& weight) {
    at::Tensor part = qkv.slice(-1, begin * config.head_dim, (begin + num_heads) * config.head_dim);
    if (family.qk_norm == common::QkNorm::kWhole && weight.defined()) {
      part = norm(config, part, weight, {});
    }
    part = part.view({batch, seq, num_heads, config.head_dim});
    if (family.qk_norm == common::QkNorm::kHead && weight.defined()) {
      part = norm(config, part, weight, {});
    }
    return part.transpose(1, 2);
  };
  at::Tensor q = heads_of(0, heads, weights.of(TensorRole::kQueryNorm));
  at::Tensor k = heads_of(heads, kv_heads, weights.of(TensorRole::kKeyNorm));
  if (!family.has_learned_positions) {
    q = rotary(q, positions, theta, config.rotary_dim());
    k = rotary(k, positions, theta, config.rotary_dim());
  }
  k = k.repeat_interleave(heads / kv_heads, 1);
  const at::Tensor v =
      heads_of(heads + kv_heads, kv_heads, {}).repeat_interleave(heads / kv_heads, 1);
  const at::Tensor out =
      at::matmul(probabilities(config, window, at::matmul(q, k.transpose(2, 3)), positions), v)
          .transpose(1, 2)
          .reshape({batch, seq, heads * config.head_dim});
  return weights.product(out, TensorRole::kAttentionOut, TensorRole::kAttentionOutBias);
}

at::Tensor experts(const common::ModelConfig& config, const LayerWeights& weights,
                   const at::Tensor& x, const at::Tensor& choices) {
  const at::Tensor rows = x.reshape({-1, config.hidden_size});
  const at::Tensor p = at::softmax(at::matmul(rows, weights.of(TensorRole::kRouter).t()), -1);
  const at::Tensor chosen =
      choices.defined() ? choices : std::get<1>(at::topk(p, config.experts_per_token, -1));
  at::Tensor top = p.gather(-1, chosen);
  if (config.norm_topk_prob) top = top / top.sum(-1, /*keepdim=*/true);
  std::vector<at::Tensor> gate_up, down;
  for (size_t i = 0; i < weights.tensors.size(); ++i) {
    if (weights.unit.tensors[i].role == TensorRole::kGateUp) gate_up.push_back(weights.tensors[i]);
    if (weights.unit.tensors[i].role == TensorRole::kDown) down.push_back(weights.tensors[i]);
  }
  at::Tensor sum = at::zeros_like(rows);
  for (size_t e = 0; e < down.size(); ++e) {
    const at::Tensor act =
        at::silu(at::matmul(rows, gate_up[2 * e].t())) * at::matmul(rows, gate_up[2 * e + 1].t());
    const at::Tensor weight =
        at::where(chosen == static_cast<int64_t>(e), top, at::zeros_like(top)).sum(-1, true);
    sum = sum + weight * at::matmul(act, down[e].t());
  }
  return sum.view_as(x);
}

at::Tensor feed_forward(const common::ModelConfig& config, const LayerWeights& weights,
                        const at::Tensor& x, const at::Tensor& choices) {
  if (config.has_experts()) return experts(config, weights, x, choices);
  const common::ModelFamily& family = common::family_of(config);
  const at::Tensor both = weights.product(x, TensorRole::kGateUp, TensorRole::kGateUpBias);
  const at::Tensor gate = both.slice(-1, 0, config.intermediate_size);
  at::Tensor act = family.activation == common::Activation::kSilu
                       ? at::silu(gate)
                       : at::gelu(gate, config.is_exact_gelu ? "none" : "tanh");
  if (family.is_gated) act = act * both.slice(-1, config.intermediate_size);
  return weights.product(act, TensorRole::kDown, TensorRole::kDownBias);
}

at::Tensor final_norm(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                      const at::Tensor& x) {
  const bool is_layer = common::family_of(config).norm == common::NormKind::kLayer;
  return norm(config, x, weights[0], is_layer ? weights[1] : at::Tensor());
}

// [batch * seq, vocab].
at::Tensor head_logits(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                       const at::Tensor& x) {
  at::Tensor logits =
      at::matmul(final_norm(config, weights, x), weights.back().t()) / config.logits_scaling;
  if (config.logit_softcap > 0) {
    logits = at::tanh(logits / config.logit_softcap) * config.logit_softcap;
  }
  return logits.reshape({-1, config.vocab_size});
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

at::Tensor embedding(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                     const at::Tensor& tokens, const at::Tensor& positions) {
  const bool scales = common::family_of(config).scales_embedding;
  const double multiplier =
      scales ? std::sqrt(static_cast<double>(config.hidden_size)) : config.embedding_multiplier;
  const at::Tensor x = at::embedding(weights[0], tokens) * multiplier;
  return weights.size() > 1 ? x + at::embedding(weights[1], positions) : x;
}

at::Tensor decoder_layer(const common::ModelConfig& config, int64_t index,
                         const std::vector<at::Tensor>& tensors, const at::Tensor& x,
                         const at::Tensor& positions, const at::Tensor& choices) {
  const Unit unit = layer_unit(config, index);
  const LayerWeights weights{unit, tensors,
                             common::family_of(config).naming == common::Naming::kGpt2};
  // A norm that the family has not is none.
  const auto normed = [&](const at::Tensor& in, TensorRole weight, TensorRole bias) {
    const at::Tensor factor = weights.of(weight);
    return factor.defined() ? norm(config, in, factor, weights.of(bias)) : in;
  };
  const at::Tensor x_mid =
      x + normed(attention(config, weights, index,
                           normed(x, TensorRole::kNorm1, TensorRole::kNorm1Bias), positions),
                 TensorRole::kAfterAttentionNorm, TensorRole::kNorm1Bias) *
              config.residual_multiplier;
  return x_mid +
         normed(feed_forward(config, weights,
                             normed(x_mid, TensorRole::kNorm2, TensorRole::kNorm2Bias), choices),
                TensorRole::kAfterMlpNorm, TensorRole::kNorm2Bias) *
             config.residual_multiplier;
}

at::Tensor head_loss(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                     const at::Tensor& x, const at::Tensor& labels) {
  return at::cross_entropy_loss(head_logits(config, weights, x), labels, /*weight=*/{},
                                at::Reduction::Sum, /*ignore_index=*/-100);
}

at::Tensor scores(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                  const at::Tensor& x, const at::Tensor& rows) {
  const at::Tensor scored = x.reshape({-1, config.hidden_size}).index_select(0, rows);
  return at::matmul(final_norm(config, weights, scored), weights.back().t()).squeeze(-1);
}

at::Tensor distilled_loss(const common::ModelConfig& config, const std::vector<at::Tensor>& weights,
                          const at::Tensor& x, const at::Tensor& labels, const at::Tensor& teacher,
                          double alpha, double temperature) {
  const at::Tensor logits = head_logits(config, weights, x);
  const at::Tensor own = at::log_softmax(logits / temperature, -1);
  const at::Tensor told = at::log_softmax(teacher / temperature, -1);
  const at::Tensor divergence = (told.exp() * (told - own)).sum(-1);
  const at::Tensor learned = labels.ge(0).to(at::kDouble);
  const at::Tensor cross_entropy = at::cross_entropy_loss(
      logits, labels, /*weight=*/{}, at::Reduction::Sum, /*ignore_index=*/-100);
  return cross_entropy * (1 - alpha) +
         (divergence * learned).sum() * (alpha * temperature * temperature);
}

double relative_error(std::span<const float> actual, const at::Tensor& expected) {
  const at::Tensor mine = to_tensor(actual, expected.sizes());
  const double difference = (mine - expected).abs().max().item<double>();
  const double largest = expected.abs().max().item<double>();
  return largest == 0 ? difference : difference / largest;
}

}  // namespace lockstep::runtime::reference
