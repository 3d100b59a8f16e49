// The keys of a config.json that are plain members of ModelConfig, read and written by one table,
// and how a key is looked up and refused.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runtime/common/model_config.h"
#include "runtime/common/result.h"

namespace lockstep::common {

struct IntegerKey {
  std::string_view key;
  int64_t ModelConfig::*member;
};
struct NumberKey {
  std::string_view key;
  double ModelConfig::*member;
  bool can_be_zero = false;
};
struct FlagKey {
  std::string_view key;
  bool ModelConfig::*member;
};

// Sizes are at least 1, numbers above 0 unless they can be zero.
inline constexpr std::array kIntegerKeys = {
    IntegerKey{"vocab_size", &ModelConfig::vocab_size},
    IntegerKey{"hidden_size", &ModelConfig::hidden_size},
    IntegerKey{"intermediate_size", &ModelConfig::intermediate_size},
    IntegerKey{"num_hidden_layers", &ModelConfig::num_hidden_layers},
    IntegerKey{"num_attention_heads", &ModelConfig::num_attention_heads},
    IntegerKey{"num_key_value_heads", &ModelConfig::num_key_value_heads},
    IntegerKey{"head_dim", &ModelConfig::head_dim},
    IntegerKey{"max_position_embeddings", &ModelConfig::max_position_embeddings},
    IntegerKey{"sliding_window", &ModelConfig::sliding_window},
    IntegerKey{"query_pre_attn_scalar", &ModelConfig::query_pre_attn_scalar},
};
inline constexpr std::array kNumberKeys = {
    NumberKey{"rms_norm_eps", &ModelConfig::rms_norm_eps},
    NumberKey{"initializer_range", &ModelConfig::initializer_range, true},
    NumberKey{"attention_multiplier", &ModelConfig::attention_multiplier},
    NumberKey{"attn_logit_softcapping", &ModelConfig::attention_softcap},
    NumberKey{"final_logit_softcapping", &ModelConfig::logit_softcap},
    NumberKey{"embedding_multiplier", &ModelConfig::embedding_multiplier},
    NumberKey{"residual_multiplier", &ModelConfig::residual_multiplier},
    NumberKey{"logits_scaling", &ModelConfig::logits_scaling},
};
inline constexpr std::array kFlagKeys = {
    FlagKey{"tie_word_embeddings", &ModelConfig::tie_word_embeddings},
    FlagKey{"attention_bias", &ModelConfig::attention_bias},
    FlagKey{"mlp_bias", &ModelConfig::mlp_bias},
};

// "KEY: what is wrong", which is how a problem finds its field.
inline Error bad_key(std::string_view key, const std::string& message,
                     const std::string& hint = "") {
  return {ErrorCode::kInvalidArgument, std::string(key) + ": " + message, hint};
}

// Null counts as absent, as it does for Transformers.
inline const nlohmann::json* find_key(const nlohmann::json& object, std::string_view key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// What gpt2 and gemma call the keys of others.
struct KeyAlias {
  std::string_view model_type;
  std::string_view theirs;
  std::string_view ours;
};
inline constexpr std::array kKeyAliases = {
    KeyAlias{"gpt2", "n_embd", "hidden_size"},
    KeyAlias{"gpt2", "n_layer", "num_hidden_layers"},
    KeyAlias{"gpt2", "n_head", "num_attention_heads"},
    KeyAlias{"gpt2", "n_positions", "max_position_embeddings"},
    KeyAlias{"gpt2", "n_inner", "intermediate_size"},
    KeyAlias{"gpt2", "activation_function", "hidden_act"},
    KeyAlias{"gpt2", "layer_norm_epsilon", "rms_norm_eps"},
    KeyAlias{"gemma2", "hidden_activation", "hidden_act"},
    KeyAlias{"gemma3_text", "hidden_activation", "hidden_act"},
};

}  // namespace lockstep::common
