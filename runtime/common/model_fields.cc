#include "runtime/common/field_builders.h"
#include "runtime/common/frozen_units.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {
namespace {

Fields model_sizes() {
  return {
      required(integer("vocab_size", 1, 1 << 20, "Number of token ids.")),
      required(integer("hidden_size", 1, 1 << 16, "Width of the residual stream.")),
      required(integer("intermediate_size", 1, 1 << 18, "Width of the feed-forward layers.")),
      required(integer("num_hidden_layers", 1, 1024, "Number of decoder layers.")),
      required(integer("num_attention_heads", 1, 1024, "Number of query heads.")),
      integer("num_key_value_heads", 1, 1024,
              "Number of key and value heads; num_attention_heads unless given."),
      integer("head_dim", 2, 256,
              "Width of a head, even; hidden_size / num_attention_heads unless given."),
      defaulted(integer("max_position_embeddings", 1, 1 << 24, "Longest sequence."), 2048),
  };
}

Field model_config() {
  Fields children = {
      choice("model_type", {"llama"}, {"gpt2", "mistral", "qwen2", "qwen3", "gemma", "phi3"},
             "Family of models."),
      {.name = "architectures",
       .type = FieldType::kList,
       .doc = "Accepted so that a config.json can be pasted.",
       .min_items = 1,
       .max_items = 1,
       .element = {choice("", {"LlamaForCausalLM"}, {}, "")}},
  };
  for (Field& field : model_sizes()) children.push_back(std::move(field));
  const Fields rest = {
      positive(number("rms_norm_eps", 0, 1, 1e-6, "Added to the mean square in RMSNorm.")),
      positive(number("rope_theta", 0, 1e12, 10000, "Base of the rotary embedding.")),
      number("initializer_range", 0, 1, 0.02, "Standard deviation of the initial weights."),
      boolean("tie_word_embeddings", false, "Whether embedding and head share their weights."),
      choice("hidden_act", {"silu"}, {"gelu", "relu", "gelu_pytorch_tanh"},
             "Activation of the feed-forward layers."),
      only_false("attention_bias", "Whether attention projections have a bias."),
      only_false("mlp_bias", "Whether feed-forward projections have a bias."),
  };
  children.insert(children.end(), rest.begin(), rest.end());
  Field config = required_object(
      "config", "Fields of a Hugging Face config.json of a Llama-style decoder.", children);
  config.planned = {
      "torch_dtype",       "dtype",          "rope_scaling",   "rope_parameters",
      "attention_dropout", "bos_token_id",   "eos_token_id",   "pad_token_id",
      "use_cache",         "pretraining_tp", "sliding_window", "transformers_version"};
  config.rules = {
      {"!has(self.num_key_value_heads) || self.num_attention_heads % self.num_key_value_heads == 0",
       "num_attention_heads must be divisible by num_key_value_heads", ".num_key_value_heads"},
      {"has(self.head_dim) || self.hidden_size % self.num_attention_heads == 0",
       "hidden_size must be divisible by num_attention_heads, or head_dim given", ".hidden_size"},
      {"(has(self.head_dim) ? self.head_dim : self.hidden_size / self.num_attention_heads) % 2 == "
       "0",
       "the width of a head must be even", ".num_attention_heads"},
      {"has(self.head_dim) || self.hidden_size / self.num_attention_heads <= 256",
       "the width of a head must be at most 256", ".num_attention_heads"},
  };
  return config;
}

Field frozen_list() {
  return {.name = "frozen",
          .type = FieldType::kList,
          .doc =
              "Units that keep their first weights: embedding, head, layer.N or layer.N-M. They "
              "have no gradient and no optimizer state.",
          .max_items = 64,
          .element = {{.pattern = kFrozenPattern,
                       .pattern_hint = "embedding, head, layer.N or layer.N-M",
                       .max_length = 32}}};
}

}  // namespace

Field model_section() {
  Field field = required_object(
      "model", "The model to train.",
      {model_config(),
       choice("init", {"random"}, {"pretrained"}, "Where the first weights come from."),
       frozen_list()});
  field.planned = {"path"};
  return field;
}

Field tokenizer_section() {
  Field field = object("tokenizer", "How text becomes tokens.",
                       {choice("type", {"bytes"}, {"hf"}, "bytes: a token is a byte.")});
  field.planned = {"path"};
  return field;
}

}  // namespace lockstep::common
