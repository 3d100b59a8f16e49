#include "runtime/common/model_family.h"

#include <array>
#include <stdexcept>

namespace lockstep::common {
namespace {

// Source of the values: the configuration classes of Transformers 5.
constexpr std::array kFamilies = {
    ModelFamily{.model_type = "llama",
                .architecture = "LlamaForCausalLM",
                .score_architecture = "LlamaForSequenceClassification",
                .hidden_is_whole_heads = true,
                .defaults = R"({"max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
                    "head_dim": null, "attention_bias": false, "mlp_bias": false})"},
    ModelFamily{.model_type = "mistral",
                .architecture = "MistralForCausalLM",
                .score_architecture = "MistralForSequenceClassification",
                .defaults = R"({"max_position_embeddings": 131072, "rms_norm_eps": 1e-6,
                    "head_dim": null, "num_key_value_heads": 8, "sliding_window": 4096})"},
    ModelFamily{.model_type = "qwen2",
                .architecture = "Qwen2ForCausalLM",
                .score_architecture = "Qwen2ForSequenceClassification",
                .has_qkv_bias = true,
                .defaults = R"({"max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
                    "num_key_value_heads": 32, "sliding_window": 4096, "layer_types": null,
                    "use_sliding_window": false, "max_window_layers": 28})"},
    ModelFamily{.model_type = "qwen3",
                .architecture = "Qwen3ForCausalLM",
                .score_architecture = "Qwen3ForSequenceClassification",
                .qk_norm = QkNorm::kHead,
                .defaults = R"({"max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
                    "head_dim": 128, "num_key_value_heads": 32, "attention_bias": false,
                    "sliding_window": 4096, "layer_types": null, "use_sliding_window": false,
                    "max_window_layers": 28})"},
    ModelFamily{.model_type = "mixtral",
                .architecture = "MixtralForCausalLM",
                .score_architecture = "MixtralForSequenceClassification",
                .naming = Naming::kMixtral,
                .defaults = R"({"max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
                    "head_dim": null, "num_key_value_heads": 8, "sliding_window": null,
                    "num_local_experts": 8, "num_experts_per_tok": 2, "rope_theta": 1e6})"},
    ModelFamily{.model_type = "qwen3_moe",
                .architecture = "Qwen3MoeForCausalLM",
                .score_architecture = "Qwen3MoeForSequenceClassification",
                .qk_norm = QkNorm::kHead,
                .defaults = R"({"max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
                    "head_dim": null, "num_key_value_heads": 4, "attention_bias": false,
                    "sliding_window": 4096, "use_sliding_window": false,
                    "num_local_experts": 128, "num_experts_per_tok": 8,
                    "moe_intermediate_size": 768, "norm_topk_prob": false})"},
    ModelFamily{.model_type = "granite",
                .architecture = "GraniteForCausalLM",
                .defaults = R"({"max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
                    "attention_bias": false, "mlp_bias": false, "attention_multiplier": 1.0,
                    "embedding_multiplier": 1.0, "residual_multiplier": 1.0,
                    "logits_scaling": 1.0})"},
    ModelFamily{.model_type = "olmo2",
                .architecture = "Olmo2ForCausalLM",
                .score_architecture = "Olmo2ForSequenceClassification",
                .placement = NormPlacement::kAfter,
                .qk_norm = QkNorm::kWhole,
                .defaults = R"({"max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
                    "attention_bias": false})"},
    ModelFamily{.model_type = "phi3",
                .architecture = "Phi3ForCausalLM",
                .score_architecture = "Phi3ForSequenceClassification",
                .naming = Naming::kFused,
                .has_partial_rotary = true,
                .has_rope_scaling = false,
                .defaults = R"({"max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
                    "sliding_window": null})"},
    ModelFamily{.model_type = "gpt2",
                .architecture = "GPT2LMHeadModel",
                .score_architecture = "GPT2ForSequenceClassification",
                .norm = NormKind::kLayer,
                .activation = Activation::kGelu,
                .is_gated = false,
                .naming = Naming::kGpt2,
                .has_all_biases = true,
                .has_learned_positions = true,
                .scales_first_outputs = true,
                .defaults = R"({"max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
                    "hidden_act": "gelu_new", "tie_word_embeddings": true})"},
    ModelFamily{.model_type = "gemma2",
                .architecture = "Gemma2ForCausalLM",
                .score_architecture = "Gemma2ForSequenceClassification",
                .norm = NormKind::kRmsOnePlus,
                .placement = NormPlacement::kBoth,
                .activation = Activation::kGelu,
                .scales_embedding = true,
                .hidden_is_whole_heads = true,
                .full_attention_every = 2,
                .defaults = R"({"max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
                    "head_dim": 256, "num_key_value_heads": 4, "tie_word_embeddings": true,
                    "hidden_act": "gelu_pytorch_tanh", "attention_bias": false,
                    "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_types": null,
                    "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})"},
    ModelFamily{.model_type = "gemma3_text",
                .architecture = "Gemma3ForCausalLM",
                .score_architecture = "Gemma3TextForSequenceClassification",
                .norm = NormKind::kRmsOnePlus,
                .placement = NormPlacement::kBoth,
                .qk_norm = QkNorm::kHead,
                .activation = Activation::kGelu,
                .scales_embedding = true,
                .hidden_is_whole_heads = true,
                .full_attention_every = 6,
                .has_window_pattern = true,
                .defaults = R"({"max_position_embeddings": 131072, "rms_norm_eps": 1e-6,
                    "head_dim": 256, "num_key_value_heads": 4, "tie_word_embeddings": true,
                    "hidden_act": "gelu_pytorch_tanh", "attention_bias": false,
                    "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_types": null,
                    "rope_theta": 1e6, "rope_local_base_freq": 10000.0,
                    "final_logit_softcapping": null})"},
};

}  // namespace

std::span<const ModelFamily> model_families() {
  return kFamilies;
}

const ModelFamily* find_family(std::string_view model_type) {
  for (const ModelFamily& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

const ModelFamily& family_of(const ModelConfig& config) {
  const ModelFamily* const family = find_family(config.model_type);
  if (family == nullptr) {
    throw std::invalid_argument("model_type \"" + config.model_type + "\" is none of " +
                                family_names());
  }
  return *family;
}

std::string family_names() {
  std::string names;
  for (const ModelFamily& family : kFamilies) {
    if (!names.empty()) names += ", ";
    names += family.model_type;
  }
  return names;
}

}  // namespace lockstep::common
