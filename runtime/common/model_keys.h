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
    IntegerKey{"num_local_experts", &ModelConfig::num_experts},
    IntegerKey{"num_experts_per_tok", &ModelConfig::experts_per_token},
    IntegerKey{"moe_intermediate_size", &ModelConfig::moe_intermediate_size},
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
    FlagKey{"norm_topk_prob", &ModelConfig::norm_topk_prob},
};

// Keys that do not change what training computes: of generation, of other tasks, of files and
// machines, or informative.
inline constexpr std::array kIrrelevantKeys = {"_name_or_path",
                                               "_attn_implementation_autoset",
                                               "transformers_version",
                                               "torch_dtype",
                                               "dtype",
                                               "use_cache",
                                               "cache_implementation",
                                               "bos_token_id",
                                               "eos_token_id",
                                               "pad_token_id",
                                               "unk_token_id",
                                               "sep_token_id",
                                               "decoder_start_token_id",
                                               "task_specific_params",
                                               "id2label",
                                               "label2id",
                                               "num_labels",
                                               "problem_type",
                                               "return_dict",
                                               "return_dict_in_generate",
                                               "output_attentions",
                                               "output_hidden_states",
                                               "output_scores",
                                               "tokenizer_class",
                                               "auto_map",
                                               "max_length",
                                               "summary_activation",
                                               "summary_first_dropout",
                                               "summary_proj_to_labels",
                                               "summary_type",
                                               "summary_use_proj",
                                               "n_ctx",
                                               "gradient_checkpointing",
                                               "original_max_position_embeddings",
                                               "chunk_size_feed_forward",
                                               "model_max_length",
                                               "sliding_window_pattern",
                                               "_sliding_window_pattern",
                                               "max_window_layers",
                                               "router_aux_loss_coef"};

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
    KeyAlias{"qwen3_moe", "num_experts", "num_local_experts"},
    KeyAlias{"gemma2", "hidden_activation", "hidden_act"},
    KeyAlias{"gemma3_text", "hidden_activation", "hidden_act"},
};

}  // namespace lockstep::common
