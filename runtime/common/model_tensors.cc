#include "runtime/common/model_tensors.h"

#include <cmath>
#include <utility>

#include "runtime/common/model_family.h"

namespace lockstep::common {
namespace {

using Role = TensorRole;

// Gathers the tensors of one layer or end of the model.
struct Builder {
  const ModelFamily& family;
  std::string prefix;
  std::vector<ModelTensor> tensors{};

  void add(Role role, const std::string& name, std::vector<int64_t> shape,
           FirstValues first = FirstValues::kNormal) {
    tensors.push_back(
        {.name = prefix + name, .shape = std::move(shape), .role = role, .first = first});
  }
  void matrix(Role role, const std::string& name, int64_t out, int64_t in) {
    const bool is_transposed = family.naming == Naming::kGpt2;
    add(role, name + ".weight",
        is_transposed ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in});
  }
  // A matrix whose product is added to the stream.
  void output_matrix(Role role, const std::string& name, int64_t out, int64_t in,
                     int64_t num_layers) {
    matrix(role, name, out, in);
    if (family.scales_first_outputs) {
      tensors.back().first_scale = 1 / std::sqrt(2 * static_cast<double>(num_layers));
    }
  }
  void bias(Role role, const std::string& name, int64_t out) {
    add(role, name + ".bias", {out}, FirstValues::kZeros);
  }
  void norm(Role role, Role bias_role, const std::string& name, int64_t channels) {
    const bool is_kept_less_one = family.norm == NormKind::kRmsOnePlus;
    add(role, name + ".weight", {channels},
        is_kept_less_one ? FirstValues::kZeros : FirstValues::kOnes);
    if (family.norm == NormKind::kLayer) bias(bias_role, name, channels);
  }
};

// What a family calls the parts of a layer.
struct LayerNames {
  std::vector<std::string> qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  std::vector<std::string> gate_up = {"mlp.gate_proj", "mlp.up_proj"};
  std::string attention_out = "self_attn.o_proj";
  std::string down = "mlp.down_proj";
  std::string norm1 = "input_layernorm";
  std::string norm2 = "post_attention_layernorm";
  std::string after_attention = "post_attention_layernorm";
  std::string after_mlp = "post_feedforward_layernorm";
};

LayerNames names_of(const ModelFamily& family) {
  LayerNames names;
  if (family.naming == Naming::kFused) {
    names.qkv = {"self_attn.qkv_proj"};
    names.gate_up = {"mlp.gate_up_proj"};
  }
  if (family.naming == Naming::kGpt2) {
    names.qkv = {"attn.c_attn"};
    names.gate_up = {"mlp.c_fc"};
    names.attention_out = "attn.c_proj";
    names.down = "mlp.c_proj";
    names.norm1 = "ln_1";
    names.norm2 = "ln_2";
  }
  if (family.placement == NormPlacement::kBoth) names.norm2 = "pre_feedforward_layernorm";
  return names;
}

// Outputs of a product by the tensors that make it up: all together if it is one tensor.
std::vector<int64_t> outputs_of(const std::vector<std::string>& names,
                                const std::vector<int64_t>& parts) {
  if (names.size() == parts.size()) return parts;
  int64_t sum = 0;
  for (const int64_t part : parts) sum += part;
  return {sum};
}

void add_attention(const ModelConfig& config, const LayerNames& names, Builder& out) {
  const ModelFamily& family = out.family;
  const int64_t hidden = config.hidden_size;
  const int64_t q = config.num_attention_heads * config.head_dim;
  const int64_t kv = config.num_key_value_heads * config.head_dim;
  const std::vector<int64_t> outputs = outputs_of(names.qkv, {q, kv, kv});
  for (size_t i = 0; i < outputs.size(); ++i) {
    out.matrix(Role::kQkv, names.qkv[i], outputs[i], hidden);
  }
  for (size_t i = 0; has_qkv_bias(family, config) && i < outputs.size(); ++i) {
    out.bias(Role::kQkvBias, names.qkv[i], outputs[i]);
  }
  if (family.qk_norm != QkNorm::kNone) {
    const bool by_head = family.qk_norm == QkNorm::kHead;
    out.norm(Role::kQueryNorm, Role::kQueryNorm, "self_attn.q_norm", by_head ? config.head_dim : q);
    out.norm(Role::kKeyNorm, Role::kKeyNorm, "self_attn.k_norm", by_head ? config.head_dim : kv);
  }
  out.output_matrix(Role::kAttentionOut, names.attention_out, hidden, q, config.num_hidden_layers);
  if (has_attention_out_bias(family, config)) {
    out.bias(Role::kAttentionOutBias, names.attention_out, hidden);
  }
}

void add_experts(const ModelConfig& config, Builder& out) {
  const bool is_mixtral = out.family.naming == Naming::kMixtral;
  const std::string stem = is_mixtral ? "block_sparse_moe" : "mlp";
  const int64_t hidden = config.hidden_size;
  const int64_t ff = config.feed_forward_size();
  out.matrix(Role::kRouter, stem + ".gate", config.num_experts, hidden);
  for (int64_t i = 0; i < config.num_experts; ++i) {
    const std::string expert = stem + ".experts." + std::to_string(i);
    out.matrix(Role::kGateUp, expert + (is_mixtral ? ".w1" : ".gate_proj"), ff, hidden);
    out.matrix(Role::kGateUp, expert + (is_mixtral ? ".w3" : ".up_proj"), ff, hidden);
    out.output_matrix(Role::kDown, expert + (is_mixtral ? ".w2" : ".down_proj"), hidden, ff,
                      config.num_hidden_layers);
  }
}

void add_feed_forward(const ModelConfig& config, const LayerNames& names, Builder& out) {
  const ModelFamily& family = out.family;
  const int64_t ff = config.intermediate_size;
  const bool has_bias = has_mlp_bias(family, config);
  const std::vector<int64_t> parts =
      family.is_gated ? std::vector<int64_t>{ff, ff} : std::vector<int64_t>{ff};
  const std::vector<int64_t> outputs = outputs_of(names.gate_up, parts);
  for (size_t i = 0; i < outputs.size(); ++i) {
    out.matrix(Role::kGateUp, names.gate_up[i], outputs[i], config.hidden_size);
  }
  for (size_t i = 0; has_bias && i < outputs.size(); ++i) {
    out.bias(Role::kGateUpBias, names.gate_up[i], outputs[i]);
  }
  out.output_matrix(Role::kDown, names.down, config.hidden_size, ff, config.num_hidden_layers);
  if (has_bias) out.bias(Role::kDownBias, names.down, config.hidden_size);
}

}  // namespace

int64_t ModelTensor::num_elems() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::vector<ModelTensor> embedding_tensors(const ModelConfig& config) {
  const ModelFamily& family = family_of(config);
  const bool is_gpt2 = family.naming == Naming::kGpt2;
  Builder out{.family = family, .prefix = is_gpt2 ? "transformer." : "model."};
  out.add(Role::kTokenEmbedding, is_gpt2 ? "wte.weight" : "embed_tokens.weight",
          {config.vocab_size, config.hidden_size});
  if (family.has_learned_positions) {
    out.add(Role::kPositionEmbedding, "wpe.weight",
            {config.max_position_embeddings, config.hidden_size});
  }
  return std::move(out.tensors);
}

std::vector<ModelTensor> layer_tensors(const ModelConfig& config, int64_t index) {
  const ModelFamily& family = family_of(config);
  const LayerNames names = names_of(family);
  const int64_t hidden = config.hidden_size;
  const char* const stem = family.naming == Naming::kGpt2 ? "transformer.h." : "model.layers.";
  Builder out{.family = family, .prefix = std::string(stem) + std::to_string(index) + "."};
  if (has_norm_before(family)) out.norm(Role::kNorm1, Role::kNorm1Bias, names.norm1, hidden);
  add_attention(config, names, out);
  if (has_norm_after(family)) {
    out.norm(Role::kAfterAttentionNorm, Role::kAfterAttentionNorm, names.after_attention, hidden);
  }
  if (has_norm_before(family)) out.norm(Role::kNorm2, Role::kNorm2Bias, names.norm2, hidden);
  if (config.has_experts()) {
    add_experts(config, out);
  } else {
    add_feed_forward(config, names, out);
  }
  if (has_norm_after(family)) {
    out.norm(Role::kAfterMlpNorm, Role::kAfterMlpNorm, names.after_mlp, hidden);
  }
  return std::move(out.tensors);
}

std::vector<ModelTensor> head_tensors(const ModelConfig& config) {
  const ModelFamily& family = family_of(config);
  const bool is_gpt2 = family.naming == Naming::kGpt2;
  Builder out{.family = family, .prefix = ""};
  out.norm(Role::kFinalNorm, Role::kFinalNormBias, is_gpt2 ? "transformer.ln_f" : "model.norm",
           config.hidden_size);
  if (config.has_score) {
    out.add(Role::kScore, "score.weight", {1, config.hidden_size});
  } else if (!config.tie_word_embeddings) {
    out.add(Role::kLmHead, "lm_head.weight", {config.vocab_size, config.hidden_size});
  }
  return std::move(out.tensors);
}

}  // namespace lockstep::common
