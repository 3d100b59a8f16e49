#include "runtime/common/model_json.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "runtime/common/model_family.h"
#include "runtime/common/model_keys.h"
#include "runtime/common/rope_json.h"
#include "runtime/common/window_json.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

// Keys of every family; the others are in its row.
constexpr std::array kCommonKeys = {
    "model_type",        "architectures",           "vocab_size",          "hidden_size",
    "intermediate_size", "num_hidden_layers",       "num_attention_heads", "num_key_value_heads",
    "head_dim",          "max_position_embeddings", "rms_norm_eps",        "rope_theta",
    "rope_scaling",      "rope_parameters",         "initializer_range",   "tie_word_embeddings",
    "hidden_act"};

// The table of a job's fields has narrower bounds; up to here sizes can be multiplied.
constexpr int64_t kMaxInteger = 1 << 24;

struct OneValue {
  std::string_view key;
  json value;
  std::string_view hint;
};

// Keys that may be present with one value only.
const std::vector<OneValue>& one_value_keys() {
  constexpr std::string_view kNoDropout = "dropout is not applied: set it to 0";
  constexpr std::string_view kAllSparse = "every layer has experts";
  static const std::vector<OneValue> table = {
      {"attention_dropout", 0, kNoDropout},
      {"embd_pdrop", 0, kNoDropout},
      {"resid_pdrop", 0, kNoDropout},
      {"attn_pdrop", 0, kNoDropout},
      {"hidden_dropout", 0, kNoDropout},
      {"pretraining_tp", 1, ""},
      {"add_cross_attention", false, ""},
      {"scale_attn_weights", true, ""},
      {"scale_attn_by_inverse_layer_idx", false, ""},
      {"reorder_and_upcast_attn", false, ""},
      {"use_bidirectional_attention", false, ""},
      {"is_encoder_decoder", false, ""},
      {"attention_bias", false, ""},
      {"mlp_bias", false, ""},
      {"partial_rotary_factor", 1, ""},
      {"output_router_logits", false, "the loss has no part that balances experts"},
      {"router_jitter_noise", 0, "noise is not applied: set it to 0"},
      {"decoder_sparse_step", 1, kAllSparse},
      {"mlp_only_layers", json::array(), kAllSparse}};
  return table;
}

template <class List>
bool is_listed(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

std::string_view our_name(const ModelFamily& family, std::string_view key) {
  for (const KeyAlias& alias : kKeyAliases) {
    if (alias.model_type == family.model_type && alias.theirs == key) return alias.ours;
  }
  return key;
}

// Of a model whose head tells one number. Which head a job trains its task says.
bool is_score_of(const ModelFamily& family, const json& architectures) {
  return !family.score_architecture.empty() &&
         architectures == json::array({family.score_architecture});
}

Result<const ModelFamily*> family_in(const json& object) {
  const json* const type = find_key(object, "model_type");
  const std::string found = type == nullptr ? "is absent" : "found " + type->dump();
  const ModelFamily* const family =
      type != nullptr && type->is_string() ? find_family(type->get<std::string>()) : nullptr;
  if (family == nullptr) {
    return bad_key("model_type", found + ", supported are " + family_names());
  }
  const json* const architectures = find_key(object, "architectures");
  if (architectures == nullptr || *architectures == json::array({family->architecture}) ||
      is_score_of(*family, *architectures)) {
    return family;
  }
  return bad_key("architectures", "found " + architectures->dump() + ", only [\"" +
                                      std::string(family->architecture) + "\"] is supported");
}

Result<void> check_key(const ModelFamily& family, const json& defaults, std::string_view key,
                       const json& value) {
  if (is_listed(kCommonKeys, key) || defaults.contains(key) || value.is_null()) return {};
  if (key == "partial_rotary_factor" && family.has_partial_rotary) return {};
  for (const OneValue& known : one_value_keys()) {
    if (known.key != key) continue;
    if (value == known.value) return {};
    return bad_key(key, value.dump() + " is not supported, only " + known.value.dump(),
                   std::string(known.hint));
  }
  if (is_listed(kIrrelevantKeys, key)) return {};
  return bad_key(
      key, value.dump() + " is not supported for model_type " + std::string(family.model_type),
      "remove it if it does not change the model");
}

// The object with the names that other families use, and with defaults.
Result<json> normalize(const ModelFamily& family, const json& object) {
  const json defaults = json::parse(family.defaults);
  json out = default_model_json(family.model_type);
  json given = json::object();
  for (const auto& [key, value] : object.items()) {
    const std::string name(our_name(family, key));
    RETURN_IF_ERROR(check_key(family, defaults, name, value));
    if (given.contains(name) && given[name] != value) {
      return bad_key(key, "found " + value.dump() + ", but " + name + " is " + given[name].dump());
    }
    given[name] = value;
  }
  out.update(given);
  out["rope_theta_given"] = find_key(given, "rope_theta") != nullptr;
  return out;
}

Result<void> read_members(const json& object, ModelConfig& config) {
  for (const IntegerKey& field : kIntegerKeys) {
    const json* const value = find_key(object, field.key);
    if (value == nullptr) continue;
    if (!value->is_number_integer() || *value < 1 || *value > kMaxInteger) {
      return bad_key(field.key, "must be an integer from 1 to " + std::to_string(kMaxInteger) +
                                    ", found " + value->dump());
    }
    config.*field.member = value->get<int64_t>();
  }
  for (const NumberKey& field : kNumberKeys) {
    const json* const value = find_key(object, field.key);
    if (value == nullptr) continue;
    const double number = value->is_number() ? value->get<double>() : -1;
    if (number < 0 || (number == 0 && !field.can_be_zero)) {
      return bad_key(field.key, std::string("must be a number ")
                                    .append(field.can_be_zero ? "of at least 0" : "above 0")
                                    .append(", found ")
                                    .append(value->dump()));
    }
    config.*field.member = number;
  }
  for (const FlagKey& field : kFlagKeys) {
    const json* const value = find_key(object, field.key);
    if (value == nullptr) continue;
    if (!value->is_boolean()) {
      return bad_key(field.key, "must be true or false, found " + value->dump());
    }
    config.*field.member = value->get<bool>();
  }
  return {};
}

Result<void> read_activation(const ModelFamily& family, const json& object, ModelConfig& config) {
  const json& found = object.at("hidden_act");
  const bool is_silu = family.activation == Activation::kSilu;
  const std::vector<std::string> same =
      is_silu ? std::vector<std::string>{"silu", "swish"}
              : std::vector<std::string>{"gelu_pytorch_tanh", "gelu_new", "gelu"};
  if (found.is_string() && is_listed(same, found.get<std::string>())) {
    config.is_exact_gelu = found == "gelu";
    return {};
  }
  return bad_key("hidden_act", found.dump() + " is not supported, only \"" + same.front() + "\"" +
                                   (is_silu ? "" : ", \"gelu_new\" and \"gelu\""));
}

Result<void> complete_sizes(const ModelFamily& family, ModelConfig& config) {
  const std::array<IntegerKey, 4> required = {kIntegerKeys[0], kIntegerKeys[1], kIntegerKeys[3],
                                              kIntegerKeys[4]};
  for (const IntegerKey& field : required) {
    if (config.*field.member == 0) return bad_key(field.key, "is required");
  }
  if (config.intermediate_size == 0 && family.naming == Naming::kGpt2) {
    config.intermediate_size = 4 * config.hidden_size;
  }
  if (config.intermediate_size == 0) return bad_key("intermediate_size", "is required");
  if (config.num_key_value_heads == 0) config.num_key_value_heads = config.num_attention_heads;
  if (config.head_dim == 0) {
    if (config.hidden_size % config.num_attention_heads != 0) {
      return bad_key("head_dim", "is required unless num_attention_heads divides hidden_size");
    }
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    return bad_key("num_key_value_heads", "must divide num_attention_heads");
  }
  if (family.hidden_is_whole_heads && config.hidden_size % config.num_attention_heads != 0) {
    return bad_key("hidden_size",
                   std::string("must be divisible by num_attention_heads for model_type ")
                       .append(family.model_type),
                   "Transformers refuses such a config.json, whatever head_dim is");
  }
  if (config.head_dim % 2 != 0 || config.head_dim > 256) {
    return bad_key("head_dim",
                   "must be even and at most 256, found " + std::to_string(config.head_dim));
  }
  if (config.experts_per_token > config.num_experts) {
    return bad_key("num_experts_per_tok", "must be at most num_local_experts, " +
                                              std::to_string(config.num_experts) + ", found " +
                                              std::to_string(config.experts_per_token));
  }
  const bool is_gpt2 = family.naming == Naming::kGpt2;
  if (is_gpt2 && (config.num_key_value_heads != config.num_attention_heads ||
                  config.head_dim * config.num_attention_heads != config.hidden_size)) {
    return bad_key("head_dim", "gpt2 has as many key heads as query heads, hidden_size wide");
  }
  return {};
}

// As Transformers spells it.
std::string_view name_of(DType dtype) {
  return dtype == DType::kFp32 ? "float32" : dtype == DType::kBf16 ? "bfloat16" : "float16";
}

// The value of a key in the family's row; `otherwise` of one that is always the same.
json value_of(const ModelConfig& config, std::string_view key, const json& otherwise = {}) {
  for (const IntegerKey& field : kIntegerKeys) {
    if (field.key != key) continue;
    return config.*field.member == 0 ? json() : json(config.*field.member);
  }
  for (const NumberKey& field : kNumberKeys) {
    if (field.key != key) continue;
    const bool is_none = config.*field.member == 0 && !field.can_be_zero;
    return is_none ? json() : json(config.*field.member);
  }
  for (const FlagKey& field : kFlagKeys) {
    if (field.key == key) return config.*field.member;
  }
  if (key == "hidden_act" && config.is_exact_gelu) return "gelu";
  if (key == "use_sliding_window") return config.sliding_window > 0;
  if (key == "max_window_layers") return config.num_hidden_layers;  // layer_types tells
  if (key == "layer_types") {
    json types = json::array();
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      types.push_back(config.window_of(i) > 0 ? "sliding_attention" : "full_attention");
    }
    return types;
  }
  return otherwise;
}

std::string_view their_name(const ModelFamily& family, std::string_view key) {
  for (const KeyAlias& alias : kKeyAliases) {
    if (alias.model_type == family.model_type && alias.ours == key) return alias.theirs;
  }
  return key;
}

}  // namespace

json default_model_json(std::string_view model_type) {
  const ModelFamily* const family = find_family(model_type);
  if (family == nullptr) return json::object();
  json out = {
      {"hidden_act", family->activation == Activation::kSilu ? "silu" : "gelu_pytorch_tanh"},
      {"tie_word_embeddings", false}};
  if (!family->has_learned_positions) out["rope_theta"] = 10000.0;
  out.update(json::parse(family->defaults));
  return out;
}

Result<ModelConfig> decode_model_json(const json& object) {
  ASSIGN_OR_RETURN(const ModelFamily* const family, family_in(object));
  ASSIGN_OR_RETURN(const json full, normalize(*family, object));
  if (const json* const quantized = find_key(object, "quantization_config")) {
    return bad_key("quantization_config", quantized->dump() + " is not supported");
  }
  ModelConfig config;
  config.model_type = family->model_type;
  RETURN_IF_ERROR(read_members(full, config));
  RETURN_IF_ERROR(read_activation(*family, full, config));
  RETURN_IF_ERROR(complete_sizes(*family, config));
  RETURN_IF_ERROR(decode_windows(*family, full, config));
  if (!family->has_learned_positions) RETURN_IF_ERROR(decode_rope(full, config));
  if (config.rope_scaling.type != RopeScaling::Type::kDefault && !family->has_rope_scaling) {
    const char* const key = find_key(full, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    return bad_key(key, std::string("found ")
                            .append(full.at(key).dump())
                            .append(", but model_type ")
                            .append(family->model_type)
                            .append(" has rope_type \"default\" only"));
  }
  if (config.partial_rotary_factor != 1 && !family->has_partial_rotary) {
    return bad_key("partial_rotary_factor", "is not supported for model_type " +
                                                std::string(family->model_type) + ", only 1");
  }
  if (config.rotary_dim() % 2 != 0 || config.rotary_dim() < 2 || config.partial_rotary_factor > 1) {
    return bad_key("partial_rotary_factor", "must leave an even number of a head's dimensions");
  }
  return config;
}

json encode_model_fields(const ModelConfig& config) {
  const ModelFamily& family = family_of(config);
  json out = {{"model_type", family.model_type}};
  for (const char* const key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings",
        "rms_norm_eps", "initializer_range", "tie_word_embeddings"}) {
    out[key] = value_of(config, key);
  }
  const json defaults = json::parse(family.defaults);
  for (const auto& [key, value] : defaults.items()) {
    if (out.contains(key) || key.starts_with("rope")) continue;
    json own = value_of(config, key, value);
    if (!own.is_null() || !value.is_null()) out[key] = std::move(own);
  }
  if (family.has_learned_positions) return out;
  ModelConfig plain = config;  // these two have keys of their own
  plain.partial_rotary_factor = 1;
  plain.rope_local_theta = 0;
  out["rope_parameters"] = encode_rope(plain);
  if (config.partial_rotary_factor != 1) {
    out["partial_rotary_factor"] = config.partial_rotary_factor;
  }
  if (config.rope_local_theta > 0) out["rope_local_base_freq"] = config.rope_local_theta;
  return out;
}

nlohmann::ordered_json encode_model_json(const ModelConfig& config, DType dtype) {
  const ModelFamily& family = family_of(config);
  const std::string_view architecture =
      config.has_score ? family.score_architecture : family.architecture;
  nlohmann::ordered_json out = {{"architectures", {architecture}},
                                {"model_type", family.model_type}};
  const auto put = [&](std::string_view key, const json& value) {
    out[std::string(their_name(family, key))] = value;
  };
  for (const char* const key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "max_position_embeddings", "rms_norm_eps", "initializer_range",
        "tie_word_embeddings"}) {
    put(key, value_of(config, key));
  }
  const bool is_gelu = family.activation == Activation::kGelu;
  const bool is_gpt2 = family.naming == Naming::kGpt2;
  const char* const gelu = is_gpt2 ? "gelu_new" : "gelu_pytorch_tanh";
  put("hidden_act", value_of(config, "hidden_act", is_gelu ? gelu : "silu"));
  if (!family.has_learned_positions) {
    put("num_key_value_heads", config.num_key_value_heads);
    put("head_dim", config.head_dim);
    out["rope_parameters"] = encode_rope(config);
    // Of the two, earlier versions and converters read this one.
    if (config.rope_local_theta == 0) out["rope_theta"] = config.rope_theta;
    out["attention_dropout"] = 0.0;
  }
  const json defaults = json::parse(family.defaults);
  for (const auto& [key, value] : defaults.items()) {
    if (!out.contains(their_name(family, key)) && !key.starts_with("rope")) {
      put(key, value_of(config, key, value));
    }
  }
  for (const char* const key : {"embd_pdrop", "resid_pdrop", "attn_pdrop"}) {
    if (is_gpt2) out[key] = 0.0;
  }
  // Absent would mean Transformers' defaults, which are ordinary bytes here.
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id"}) out[key] = nullptr;
  if (config.has_score) {  // one label; absent would mean two
    out["id2label"] = {{"0", "LABEL_0"}};
    out["label2id"] = {{"LABEL_0", 0}};
  }
  out["use_cache"] = true;
  out["dtype"] = name_of(dtype);
  return out;
}

}  // namespace lockstep::common
