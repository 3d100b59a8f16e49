#include "runtime/model/config_json.h"

#include <array>
#include <fstream>
#include <span>
#include <sstream>

#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

using common::DType;
using common::Error;
using common::ErrorCode;
using common::ModelConfig;
using common::Result;
using nlohmann::json;

Error invalid(const std::string& field, const std::string& message, const std::string& hint = "") {
  return {ErrorCode::kInvalidArgument, field + ": " + message, hint};
}

// Null counts as absent, as it does for Transformers.
const json* find(const json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

struct IntegerField {
  const char* key;
  int64_t ModelConfig::*member;
  int64_t fallback;  // 0: the key is required
};

Result<void> read_integers(const json& object, std::span<const IntegerField> fields,
                           ModelConfig& config) {
  for (const IntegerField& field : fields) {
    const json* const value = find(object, field.key);
    if (value == nullptr && field.fallback == 0) return invalid(field.key, "is required");
    if (value == nullptr) {
      config.*field.member = field.fallback;
      continue;
    }
    if (!value->is_number_integer() || value->get<int64_t>() < 1) {
      return invalid(field.key, "must be an integer of at least 1, found " + value->dump());
    }
    config.*field.member = value->get<int64_t>();
  }
  return {};
}

Result<void> read_positive(const json& object, const char* key, const std::string& path,
                           double& out) {
  const json* const value = find(object, key);
  if (value == nullptr) return {};
  if (!value->is_number() || value->get<double>() <= 0) {
    return invalid(path, "must be a number above 0, found " + value->dump());
  }
  out = value->get<double>();
  return {};
}

// Keys that may be present only with the value that they have in a plain Llama.
Result<void> refuse_unsupported(const json& object) {
  struct Supported {
    const char* key;
    json value;
  };
  const std::array<Supported, 5> supported = {{{"hidden_act", "silu"},
                                               {"attention_bias", false},
                                               {"mlp_bias", false},
                                               {"attention_dropout", 0},
                                               {"partial_rotary_factor", 1}}};
  for (const auto& [key, expected] : supported) {
    const json* const value = find(object, key);
    if (value != nullptr && *value != expected) {
      return invalid(key, value->dump() + " is not supported, only " + expected.dump());
    }
  }
  for (const char* const key : {"rope_scaling", "quantization_config"}) {
    if (const json* const value = find(object, key)) {
      return invalid(key, value->dump() + " is not supported, only its absence or null");
    }
  }
  return {};
}

Result<void> check_architecture(const json& object) {
  const json* const type = find(object, "model_type");
  if (type == nullptr || *type != "llama") {
    return invalid("model_type", (type == nullptr ? "is absent" : "found " + type->dump()) +
                                     std::string(", only \"llama\" is supported"));
  }
  const json* const architectures = find(object, "architectures");
  if (architectures != nullptr && *architectures != json::array({"LlamaForCausalLM"})) {
    return invalid("architectures",
                   "found " + architectures->dump() + ", only [\"LlamaForCausalLM\"] is supported");
  }
  return {};
}

// Transformers 5 writes rope_parameters.rope_theta, earlier versions rope_theta.
Result<void> read_rotary(const json& object, ModelConfig& config) {
  RETURN_IF_ERROR(read_positive(object, "rope_theta", "rope_theta", config.rope_theta));
  const json* const parameters = find(object, "rope_parameters");
  if (parameters == nullptr) return {};
  if (!parameters->is_object()) {
    return invalid("rope_parameters", "must be an object, found " + parameters->dump());
  }
  for (const auto& [key, value] : parameters->items()) {
    const bool is_plain = key == "rope_theta" || (key == "rope_type" && value == "default") ||
                          (key == "partial_rotary_factor" && value == 1);
    if (!is_plain) {
      return invalid("rope_parameters." + key, value.dump() + " is not supported",
                     "only rope_type \"default\" with a rope_theta is");
    }
  }
  const double outer_theta = config.rope_theta;
  RETURN_IF_ERROR(
      read_positive(*parameters, "rope_theta", "rope_parameters.rope_theta", config.rope_theta));
  if (find(object, "rope_theta") != nullptr && config.rope_theta != outer_theta) {
    return invalid("rope_theta", "differs from rope_parameters.rope_theta");
  }
  return {};
}

Result<void> check_heads(const ModelConfig& config) {
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    return invalid("num_key_value_heads", "must divide num_attention_heads");
  }
  if (config.head_dim % 2 != 0 || config.head_dim > 256) {
    return invalid("head_dim",
                   "must be even and at most 256, found " + std::to_string(config.head_dim));
  }
  return {};
}

// As Transformers spells it.
std::string_view name_of(DType dtype) {
  return dtype == DType::kFp32 ? "float32" : dtype == DType::kBf16 ? "bfloat16" : "float16";
}

}  // namespace

std::string encode_config_json(const ModelConfig& config, DType dtype) {
  const nlohmann::ordered_json object = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.num_key_value_heads},
      {"head_dim", config.head_dim},
      {"max_position_embeddings", config.max_position_embeddings},
      {"hidden_act", "silu"},
      {"rms_norm_eps", config.rms_norm_eps},
      // The first is read by Transformers 5, the second by earlier versions and by converters.
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", config.rope_theta}}},
      {"rope_theta", config.rope_theta},
      {"initializer_range", config.initializer_range},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"mlp_bias", false},
      // Absent would mean Transformers' defaults 1 and 2, which are ordinary bytes here.
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"pad_token_id", nullptr},
      {"use_cache", true},
      {"dtype", name_of(dtype)},
  };
  return object.dump(2) + "\n";
}

Result<ModelConfig> decode_config_json(std::string_view text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return Error{ErrorCode::kInvalidArgument, "not a JSON object", "is it a config.json?"};
  }
  RETURN_IF_ERROR(check_architecture(object));
  RETURN_IF_ERROR(refuse_unsupported(object));

  ModelConfig config;
  config.model_type = "llama";
  const std::array<IntegerField, 6> sizes = {
      {{"vocab_size", &ModelConfig::vocab_size, 0},
       {"hidden_size", &ModelConfig::hidden_size, 0},
       {"intermediate_size", &ModelConfig::intermediate_size, 0},
       {"num_hidden_layers", &ModelConfig::num_hidden_layers, 0},
       {"num_attention_heads", &ModelConfig::num_attention_heads, 0},
       {"max_position_embeddings", &ModelConfig::max_position_embeddings, 2048}}};
  RETURN_IF_ERROR(read_integers(object, sizes, config));
  if (find(object, "head_dim") == nullptr && config.hidden_size % config.num_attention_heads != 0) {
    return invalid("head_dim", "is required unless num_attention_heads divides hidden_size");
  }
  const std::array<IntegerField, 2> heads = {
      {{"num_key_value_heads", &ModelConfig::num_key_value_heads, config.num_attention_heads},
       {"head_dim", &ModelConfig::head_dim, config.hidden_size / config.num_attention_heads}}};
  RETURN_IF_ERROR(read_integers(object, heads, config));
  RETURN_IF_ERROR(check_heads(config));

  RETURN_IF_ERROR(read_positive(object, "rms_norm_eps", "rms_norm_eps", config.rms_norm_eps));
  RETURN_IF_ERROR(
      read_positive(object, "initializer_range", "initializer_range", config.initializer_range));
  RETURN_IF_ERROR(read_rotary(object, config));
  if (const json* const tied = find(object, "tie_word_embeddings")) {
    if (!tied->is_boolean()) {
      return invalid("tie_word_embeddings", "must be true or false, found " + tied->dump());
    }
    config.tie_word_embeddings = tied->get<bool>();
  }
  return config;
}

Result<ModelConfig> read_config_json(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::kNotFound, path + ": cannot be read", ""};
  std::ostringstream text;
  text << file.rdbuf();
  Result<ModelConfig> config = decode_config_json(text.str());
  if (!config) {
    const Error& error = config.error();
    return Error{error.code, path + ": " + error.message, error.hint};
  }
  return config;
}

}  // namespace lockstep::runtime
