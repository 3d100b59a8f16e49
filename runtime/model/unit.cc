#include "runtime/model/unit.h"

#include <utility>

namespace lockstep::runtime {
namespace {

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  Init init = Init::kNormal;
};

Unit lay_out(std::string name, std::vector<TensorSpec> specs) {
  Unit unit;
  unit.name = std::move(name);
  for (TensorSpec& spec : specs) {
    int64_t num_elems = 1;
    for (const int64_t size : spec.shape) num_elems *= size;
    unit.tensors.push_back(UnitTensor{.name = std::move(spec.name),
                                      .shape = std::move(spec.shape),
                                      .begin_elem = unit.num_elems,
                                      .num_elems = num_elems,
                                      .init = spec.init});
    unit.num_elems += num_elems;
  }
  return unit;
}

}  // namespace

Unit embedding_unit(const common::ModelConfig& config) {
  return lay_out("embedding",
                 {{"model.embed_tokens.weight", {config.vocab_size, config.hidden_size}}});
}

Unit layer_unit(const common::ModelConfig& config, int64_t index) {
  const int64_t hidden = config.hidden_size;
  const int64_t ff = config.intermediate_size;
  const int64_t q_rows = config.num_attention_heads * config.head_dim;
  const int64_t kv_rows = config.num_key_value_heads * config.head_dim;
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  return lay_out("layer." + std::to_string(index),
                 {{prefix + "input_layernorm.weight", {hidden}, Init::kOnes},
                  {prefix + "self_attn.q_proj.weight", {q_rows, hidden}},
                  {prefix + "self_attn.k_proj.weight", {kv_rows, hidden}},
                  {prefix + "self_attn.v_proj.weight", {kv_rows, hidden}},
                  {prefix + "self_attn.o_proj.weight", {hidden, q_rows}},
                  {prefix + "post_attention_layernorm.weight", {hidden}, Init::kOnes},
                  {prefix + "mlp.gate_proj.weight", {ff, hidden}},
                  {prefix + "mlp.up_proj.weight", {ff, hidden}},
                  {prefix + "mlp.down_proj.weight", {hidden, ff}}});
}

Unit head_unit(const common::ModelConfig& config) {
  if (config.tie_word_embeddings) {
    return lay_out("head", {{"model.norm.weight", {config.hidden_size}, Init::kOnes}});
  }
  return lay_out("head", {{"model.norm.weight", {config.hidden_size}, Init::kOnes},
                          {"lm_head.weight", {config.vocab_size, config.hidden_size}}});
}

std::vector<Unit> model_units(const common::ModelConfig& config) {
  std::vector<Unit> units;
  units.push_back(embedding_unit(config));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) units.push_back(layer_unit(config, i));
  units.push_back(head_unit(config));
  return units;
}

}  // namespace lockstep::runtime
