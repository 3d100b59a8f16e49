// The families of decoders that train: one row each. The decoder, the names of tensors, the memory
// estimate and the reading and writing of config.json all follow this table, so that a family is
// one row of it, unless it computes something that no other does.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/common/model_config.h"

namespace lockstep::common {

enum class NormKind {
  kRms,
  kRmsOnePlus,  // the weight is kept less one
  kLayer,       // with mean and bias
};
// Where a layer has its norms: before attention and feed-forward, on what they return, or both.
enum class NormPlacement { kBefore, kAfter, kBoth };
// Queries and keys are normed before they are turned: not at all, by head, or all heads at once.
enum class QkNorm { kNone, kHead, kWhole };
// kGelu: by its tanh approximation unless ModelConfig::is_exact_gelu.
enum class Activation { kSilu, kGelu };
// What tensors are called and how matrices lie.
enum class Naming {
  kSeparate,  // q_proj, k_proj, v_proj, gate_proj, up_proj
  kFused,     // qkv_proj, gate_up_proj: the same rows, one tensor
  kMixtral,   // as kSeparate, but for experts: w1, w3, w2
  kGpt2,      // c_attn, c_fc, ...; matrices are [in, out]
};

struct ModelFamily {
  std::string_view model_type;
  std::string_view architecture;
  std::string_view score_architecture;  // with a score as head; empty: Transformers has none
  NormKind norm = NormKind::kRms;
  NormPlacement placement = NormPlacement::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  Activation activation = Activation::kSilu;
  bool is_gated = true;  // act(gate) * up; else act(up)
  Naming naming = Naming::kSeparate;
  bool has_qkv_bias = false;    // whatever attention_bias says
  bool has_all_biases = false;  // of every product and norm
  bool has_partial_rotary = false;
  bool has_learned_positions = false;  // added to the embedding, in place of the rotary embedding
  bool scales_embedding = false;       // by sqrt(hidden_size)
  bool scales_first_outputs = false;   // first values of what adds to the stream: 1/sqrt(2 layers)
  // What Transformers refuses to load otherwise.
  bool hidden_is_whole_heads = false;  // num_attention_heads divides it, whatever head_dim is
  bool has_rope_scaling = true;
  // Layer i sees everything if (i + 1) % full_attention_every == 0, and has the window else; 0: all
  // layers are alike, or max_window_layers or layer_types tell.
  int64_t full_attention_every = 0;
  bool has_window_pattern = false;  // sliding_window_pattern, in place of full_attention_every
  // Keys of config.json that the family has beyond those of every family, with Transformers' values
  // for absent ones: a JSON object.
  std::string_view defaults;
};

std::span<const ModelFamily> model_families();

// Null if there is none of that name.
const ModelFamily* find_family(std::string_view model_type);

// Precondition: the config's model_type is in the table.
const ModelFamily& family_of(const ModelConfig& config);

// "llama, mistral, ..."
std::string family_names();

inline bool has_qkv_bias(const ModelFamily& family, const ModelConfig& config) {
  return family.has_qkv_bias || family.has_all_biases || config.attention_bias;
}
inline bool has_attention_out_bias(const ModelFamily& family, const ModelConfig& config) {
  return family.has_all_biases || config.attention_bias;
}
inline bool has_mlp_bias(const ModelFamily& family, const ModelConfig& config) {
  return family.has_all_biases || config.mlp_bias;
}
inline bool has_norm_before(const ModelFamily& family) {
  return family.placement != NormPlacement::kAfter;
}
inline bool has_norm_after(const ModelFamily& family) {
  return family.placement != NormPlacement::kBefore;
}
// Rows of the first product of the feed-forward part: gate and up, or up alone.
inline int64_t feed_forward_rows(const ModelFamily& family, const ModelConfig& config) {
  return (family.is_gated ? 2 : 1) * config.feed_forward_size();
}

}  // namespace lockstep::common
