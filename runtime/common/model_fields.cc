#include "runtime/common/field_builders.h"
#include "runtime/common/frozen_units.h"
#include "runtime/common/hub_reference.h"
#include "runtime/common/model_family.h"
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
      integer(
          "num_key_value_heads", 1, 1024,
          "Number of key and value heads; the family's, else num_attention_heads, unless given."),
      integer("head_dim", 2, 256,
              "Width of a head, even; the family's, else hidden_size / num_attention_heads, unless "
              "given."),
      integer("max_position_embeddings", 1, 1 << 24, "Longest sequence."),
      integer("num_local_experts", 1, 1024,
              "Of mixtral and qwen3_moe, which calls it num_experts: experts of a layer."),
      integer("num_experts_per_tok", 1, 64,
              "Of mixtral and qwen3_moe: experts that a token takes."),
      integer("moe_intermediate_size", 1, 1 << 18, "Of qwen3_moe: width of an expert."),
  };
}

// "['llama', ...]": the families that `has` says something of.
template <class Predicate>
std::string families_where(const Predicate& has) {
  std::string list;
  for (const ModelFamily& family : model_families()) {
    if (!has(family)) continue;
    list.append(list.empty() ? "['" : ", '").append(family.model_type).append("'");
  }
  return list.append("]");
}

std::vector<CelRule> head_rules() {
  const std::string own_width = families_where([](const ModelFamily& family) {
    return nlohmann::json::parse(family.defaults).value("head_dim", nlohmann::json()).is_number();
  });
  const std::string whole_heads =
      families_where([](const ModelFamily& family) { return family.hidden_is_whole_heads; });
  // head_dim follows from hidden_size
  const std::string follows = "has(self.head_dim) || self.model_type in " + own_width + " || ";
  return {
      {"!has(self.num_key_value_heads) || self.num_attention_heads % self.num_key_value_heads == 0",
       "num_attention_heads must be divisible by num_key_value_heads", ".num_key_value_heads"},
      {follows + "self.hidden_size % self.num_attention_heads == 0",
       "hidden_size must be divisible by num_attention_heads, or head_dim given", ".hidden_size"},
      {"!(self.model_type in " + whole_heads +
           ") || self.hidden_size % self.num_attention_heads == 0",
       "hidden_size must be divisible by num_attention_heads for this model_type", ".hidden_size"},
      {"!has(self.head_dim) || self.head_dim % 2 == 0", "the width of a head must be even",
       ".head_dim"},
      {follows + "self.hidden_size / self.num_attention_heads % 2 == 0",
       "the width of a head must be even", ".num_attention_heads"},
      {follows + "self.hidden_size / self.num_attention_heads <= 256",
       "the width of a head must be at most 256", ".num_attention_heads"},
  };
}

// Absent unless given: what it is then depends on the family.
Field if_given(Field field) {
  field.default_value = nullptr;
  return field;
}

// Null says that the model has none, where absent means what the family has.
Field or_none(Field field) {
  field.nullable = true;
  return field;
}

Field number_if_given(std::string name, std::string doc) {
  return if_given(positive(number(std::move(name), 0, 1e12, 1, std::move(doc))));
}

std::vector<nlohmann::json> names_of_families(bool architectures) {
  std::vector<nlohmann::json> names;
  for (const ModelFamily& family : model_families()) {
    names.emplace_back(architectures ? family.architecture : family.model_type);
  }
  return names;
}

Field rope_object(std::string name, std::string doc) {
  Field type = required(choice("rope_type", {"default", "linear", "llama3", "yarn"},
                               {"dynamic", "longrope", "proportional"}, "How lengths are scaled."));
  type.default_value = nullptr;
  Field field = if_given(
      object(std::move(name), std::move(doc),
             {std::move(type), number_if_given("rope_theta", "Base of the rotary embedding."),
              number_if_given("factor", "By how much lengths are stretched."),
              number_if_given("low_freq_factor", "Of llama3: waves from there on are stretched."),
              number_if_given("high_freq_factor", "Of llama3: waves up to there are kept."),
              integer("original_max_position_embeddings", 1, 1 << 24,
                      "Of llama3 and yarn: the length first trained with."),
              number_if_given("beta_fast", "Of yarn: rotations from there on are kept."),
              number_if_given("beta_slow", "Of yarn: rotations up to there are stretched."),
              number_if_given("attention_factor", "Of yarn: scale of cosines and sines."),
              number_if_given("mscale", "Of yarn: part of the attention factor."),
              number_if_given("mscale_all_dim", "Of yarn: part of the attention factor."),
              if_given(boolean("truncate", true, "Of yarn: whole dimensions bound the ramp."))}));
  field.planned = {"type", "short_factor", "long_factor", "partial_rotary_factor"};
  return field;
}

Fields windows_and_positions() {
  return {
      if_given(positive(number("rope_theta", 0, 1e12, 10000, "Base of the rotary embedding."))),
      rope_object("rope_parameters", "The rotary embedding as Transformers 5 writes it."),
      rope_object("rope_scaling", "The same as earlier versions write it."),
      number_if_given("rope_local_base_freq", "Of gemma3: the base in layers with a window."),
      number_if_given("partial_rotary_factor", "Of phi3: share of a head that is turned."),
      or_none(integer("sliding_window", 1, 1 << 24,
                      "Keys that a token sees, itself included; null: all before it.")),
      if_given(boolean("use_sliding_window", false, "Of qwen: whether there is a window.")),
      integer("max_window_layers", 0, 1024, "Of qwen: the first layer with the window."),
      {.name = "layer_types",
       .type = FieldType::kList,
       .doc = "Which layers have the window, where not all have.",
       .min_items = 1,
       .max_items = 1024,
       .element = {choice("", {"full_attention", "sliding_attention"}, {"linear_attention"}, "")}},
  };
}

Fields scales_and_caps() {
  return {
      number_if_given("attention_multiplier", "Of granite: of attention scores."),
      number_if_given("embedding_multiplier", "Of granite: of the embedding."),
      number_if_given("residual_multiplier", "Of granite: of what a layer adds to the stream."),
      number_if_given("logits_scaling", "Of granite: logits are divided by it."),
      integer("query_pre_attn_scalar", 1, 1 << 16, "Of gemma: scores are divided by its root."),
      or_none(number_if_given("attn_logit_softcapping",
                              "Of gemma: soft-cap of attention scores; null: none.")),
      or_none(
          number_if_given("final_logit_softcapping", "Of gemma: soft-cap of logits; null: none.")),
  };
}

Field model_config() {
  Fields children = {
      choice("model_type", names_of_families(false),
             {"gemma", "gemma3", "gpt_neox", "gpt_oss", "olmo", "phi", "qwen2_moe"},
             "Family of models."),
      {.name = "architectures",
       .type = FieldType::kList,
       .doc = "What config.json calls it; follows from model_type.",
       .min_items = 1,
       .max_items = 1,
       .element = {choice("", names_of_families(true), {}, "")}},
  };
  for (Field& field : model_sizes()) children.push_back(std::move(field));
  const Fields rest = {
      if_given(positive(number("rms_norm_eps", 0, 1, 1e-6,
                               "Added to the mean square in RMSNorm, the variance in LayerNorm."))),
      number("initializer_range", 0, 1, 0.02, "Standard deviation of the initial weights."),
      if_given(
          boolean("tie_word_embeddings", false, "Whether embedding and head share their weights.")),
      if_given(choice("hidden_act", {"silu", "gelu_pytorch_tanh", "gelu_new", "gelu"}, {"relu"},
                      "Activation of the feed-forward layers: the family's own; of gpt2 and gemma "
                      "also gelu, which is not approximated.")),
      boolean("attention_bias", false, "Whether attention projections have a bias."),
      if_given(boolean("norm_topk_prob", false,
                       "Of qwen3_moe: whether the weights of a token's experts add up to 1.")),
      boolean("mlp_bias", false, "Whether feed-forward projections have a bias."),
  };
  children.insert(children.end(), rest.begin(), rest.end());
  for (Field& field : windows_and_positions()) children.push_back(std::move(field));
  for (Field& field : scales_and_caps()) children.push_back(std::move(field));
  Field config = object(
      "config",
      "The fields of a Hugging Face config.json that make the model, by the names below (n_embd of "
      "gpt2 is hidden_size); what is not given has Transformers' value of the family.",
      children);
  config.planned = {"torch_dtype",  "dtype",          "attention_dropout",
                    "bos_token_id", "eos_token_id",   "pad_token_id",
                    "use_cache",    "pretraining_tp", "transformers_version"};
  config.rules = head_rules();
  config.rules.push_back(
      {"!has(self.num_experts_per_tok) || !has(self.num_local_experts) || "
       "self.num_experts_per_tok <= self.num_local_experts",
       "num_experts_per_tok must be at most num_local_experts", ".num_experts_per_tok"});
  return if_given(std::move(config));
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
      {{.name = "path",
        .doc = "A Hugging Face directory with config.json and safetensors, or "
               "hf://ORG/NAME[@REVISION] on the hub; in place of config.",
        .min_length = 1,
        .max_length = 4096},
       model_config(),
       if_given(choice("init", {"random", "pretrained"}, {},
                       "First weights: pretrained are those of path, and the default there; "
                       "random with a path takes its config.json alone.")),
       frozen_list()});
  field.rules = {
      {"has(self.path) != has(self.config)", "give either path or config", ""},
      hub_rule("path", HubKind::kModel),
      {"!has(self.init) || self.init != 'pretrained' || has(self.path)",
       "init pretrained needs path", ".init"},
  };
  return field;
}

Field tokenizer_section() {
  Field field = object("tokenizer", "How text becomes tokens.",
                       {choice("type", {"bytes", "hf"}, {},
                               "bytes: a token is a byte; hf: a Hugging Face tokenizer.json."),
                        {.name = "path",
                         .doc = "Of hf: a directory with a tokenizer.json, that file, or "
                                "hf://ORG/NAME[@REVISION] on the hub; absent: model.path.",
                         .min_length = 1,
                         .max_length = 4096}});
  field.rules = {{"!has(self.path) || self.type == 'hf'", "path needs type hf", ".path"},
                 hub_rule("path", HubKind::kModel)};
  return field;
}

}  // namespace lockstep::common
