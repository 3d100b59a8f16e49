// A decoder as a Hugging Face config.json describes it, in typed values: what a family of models
// always does is in model_family.h, what differs from model to model is here.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::common {

// How the frequencies of the rotary embedding are stretched beyond the lengths first trained with.
struct RopeScaling {
  enum class Type { kDefault, kLinear, kLlama3, kYarn };
  Type type = Type::kDefault;
  double factor = 1;
  int64_t original_max_position_embeddings = 0;      // llama3, yarn
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  bool truncate = true;                              // yarn: whole dimensions bound the ramp
  double attention_factor = 1;                       // yarn: of cosines and sines
  bool operator==(const RopeScaling&) const = default;
};

// Fields that are not given have the value at which they change nothing.
struct ModelConfig {
  std::string model_type;  // of a family in model_family.h
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;  // hidden_size / num_attention_heads unless given
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;  // also of LayerNorm
  double rope_theta = 10000.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;  // the head uses the embedding's weights
  // The head tells one number of a text in place of its next token, as Transformers' models for
  // sequence classification with one label do. No key of a job: its task says so.
  bool has_score = false;

  int64_t num_experts = 0;            // feed-forward parts of a layer; 0: one, for every token
  int64_t experts_per_token = 0;      // that a token takes
  int64_t moe_intermediate_size = 0;  // width of an expert; 0: intermediate_size
  bool norm_topk_prob = true;         // the weights of a token's experts add up to 1

  bool is_exact_gelu = false;   // of a family with GELU: by the error function
  bool attention_bias = false;  // of q, k, v and the output of attention
  bool mlp_bias = false;
  double partial_rotary_factor = 1;  // share of a head, from its start, that is turned
  RopeScaling rope_scaling;
  double rope_local_theta = 0;        // of layers with a window, then unscaled; 0: as the others
  int64_t sliding_window = 0;         // keys that a token sees, itself included; 0: all before it
  std::vector<bool> slides;           // [layer] whether it has the window; empty: every layer
  double attention_multiplier = 0;    // of scores
  int64_t query_pre_attn_scalar = 0;  // scores are divided by its root; neither: by head_dim's
  double attention_softcap = 0;       // scores become c tanh(score / c); 0: they stay
  double logit_softcap = 0;           // the same of logits
  double embedding_multiplier = 1;
  double residual_multiplier = 1;  // of what attention and feed-forward add to the stream
  double logits_scaling = 1;       // logits are divided by it

  bool has_experts() const { return num_experts > 0; }
  // Width of the feed-forward part, or of one expert.
  int64_t feed_forward_size() const {
    return moe_intermediate_size > 0 ? moe_intermediate_size : intermediate_size;
  }
  // Feed-forward parts that a token passes.
  int64_t parts_per_token() const { return has_experts() ? experts_per_token : 1; }

  int64_t rotary_dim() const {
    return static_cast<int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
  }
  // What scores are multiplied with; 0: 1 / sqrt(head_dim).
  double attention_scale() const {
    if (attention_multiplier > 0) return attention_multiplier;
    return query_pre_attn_scalar > 0 ? 1 / std::sqrt(static_cast<double>(query_pre_attn_scalar))
                                     : 0;
  }
  // The window of a layer; 0: none.
  int64_t window_of(int64_t layer) const {
    const bool has_window = slides.empty() || slides[static_cast<size_t>(layer)];
    return has_window ? sliding_window : 0;
  }
};

}  // namespace lockstep::common
