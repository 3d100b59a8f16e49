#include "runtime/common/rope_json.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/common/model_keys.h"
#include "runtime/common/suggest.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using Type = RopeScaling::Type;

struct TypeName {
  const char* name;
  Type type;
  std::vector<std::string> keys;  // beyond those of every type
};

const std::vector<TypeName>& rope_types() {
  static const std::vector<TypeName> table = {
      {"default", Type::kDefault, {}},
      {"linear", Type::kLinear, {"factor"}},
      {"llama3",
       Type::kLlama3,
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
      {"yarn",
       Type::kYarn,
       {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "truncate",
        "attention_factor", "mscale", "mscale_all_dim"}},
  };
  return table;
}

struct Reader {
  const json& rope;
  std::string path;

  Result<void> positive(const char* key, bool is_required, double& out) const {
    const json* const value = find_key(rope, key);
    if (value == nullptr && is_required) return bad_key(path + "." + key, "is required");
    if (value == nullptr) return {};
    if (!value->is_number() || value->get<double>() <= 0) {
      return bad_key(path + "." + key, "must be a number above 0, found " + value->dump());
    }
    out = value->get<double>();
    return {};
  }
};

Result<const TypeName*> type_of(const json& rope, const std::string& path) {
  const json* const given =
      find_key(rope, "rope_type") ? find_key(rope, "rope_type") : find_key(rope, "type");
  std::vector<std::string> names;
  for (const TypeName& type : rope_types()) {
    if (given == nullptr || *given == type.name) return &type;
    names.emplace_back(type.name);
  }
  return bad_key(path + ".rope_type", given->dump() + " is not supported", "one of " + join(names));
}

Result<void> check_keys(const json& rope, const TypeName& type, const std::string& path) {
  for (const auto& [key, value] : rope.items()) {
    const bool is_common = key == "rope_theta" || key == "rope_type" || key == "type" ||
                           key == "partial_rotary_factor";
    if (is_common || value.is_null()) continue;
    if (std::find(type.keys.begin(), type.keys.end(), key) == type.keys.end()) {
      return bad_key(path + "." + key,
                     value.dump() + " is not supported with rope_type " + type.name);
    }
  }
  return {};
}

// 0.1 m ln(scale) + 1. Source: YaRN, arXiv:2309.00071.
double yarn_magnitude(double scale, double m) {
  return scale <= 1 ? 1.0 : 0.1 * m * std::log(scale) + 1.0;
}

Result<void> read_yarn(const Reader& read, RopeScaling& out) {
  RETURN_IF_ERROR(read.positive("beta_fast", false, out.beta_fast));
  RETURN_IF_ERROR(read.positive("beta_slow", false, out.beta_slow));
  if (const json* const truncate = find_key(read.rope, "truncate")) {
    if (!truncate->is_boolean()) return bad_key(read.path + ".truncate", "must be true or false");
    out.truncate = truncate->get<bool>();
  }
  double mscale = 0;
  double mscale_all_dim = 0;
  RETURN_IF_ERROR(read.positive("mscale", false, mscale));
  RETURN_IF_ERROR(read.positive("mscale_all_dim", false, mscale_all_dim));
  out.attention_factor = yarn_magnitude(out.factor, 1);
  if (mscale > 0 && mscale_all_dim > 0) {
    out.attention_factor =
        yarn_magnitude(out.factor, mscale) / yarn_magnitude(out.factor, mscale_all_dim);
  }
  return read.positive("attention_factor", false, out.attention_factor);
}

Result<void> read_scaling(const Reader& read, Type type, RopeScaling& out) {
  out = {.type = type};
  if (type == Type::kDefault) return {};
  RETURN_IF_ERROR(read.positive("factor", true, out.factor));
  if (type == Type::kLinear) return {};
  double original = 0;
  RETURN_IF_ERROR(read.positive("original_max_position_embeddings", true, original));
  out.original_max_position_embeddings = static_cast<int64_t>(original);
  if (type == Type::kYarn) return read_yarn(read, out);
  RETURN_IF_ERROR(read.positive("low_freq_factor", true, out.low_freq_factor));
  return read.positive("high_freq_factor", true, out.high_freq_factor);
}

// One set of parameters, at `path` of the config.
Result<void> read_parameters(const json& rope, const std::string& path, RopeScaling& scaling,
                             double& theta, double& partial) {
  if (!rope.is_object()) return bad_key(path, "must be an object, found " + rope.dump());
  ASSIGN_OR_RETURN(const TypeName* const type, type_of(rope, path));
  RETURN_IF_ERROR(check_keys(rope, *type, path));
  const Reader read{rope, path};
  RETURN_IF_ERROR(read.positive("rope_theta", false, theta));
  RETURN_IF_ERROR(read.positive("partial_rotary_factor", false, partial));
  return read_scaling(read, type->type, scaling);
}

// gemma3: one set for layers that see everything, one for those with a window.
Result<void> read_by_layer_type(const json& rope, ModelConfig& config) {
  for (const auto& [key, value] : rope.items()) {
    if (key != "full_attention" && key != "sliding_attention") {
      return bad_key("rope_parameters." + key, "is not supported beside full_attention");
    }
  }
  RETURN_IF_ERROR(read_parameters(rope.at("full_attention"), "rope_parameters.full_attention",
                                  config.rope_scaling, config.rope_theta,
                                  config.partial_rotary_factor));
  const json* const local = find_key(rope, "sliding_attention");
  if (local == nullptr) return {};
  RopeScaling unscaled;
  double whole = 1;
  RETURN_IF_ERROR(read_parameters(*local, "rope_parameters.sliding_attention", unscaled,
                                  config.rope_local_theta, whole));
  if (unscaled.type != Type::kDefault) {
    return bad_key("rope_parameters.sliding_attention.rope_type", "must be \"default\"");
  }
  return {};
}

// Transformers lets the key beside the parameters win over the one in them.
Result<void> check_first_length(const json& object, const RopeScaling& scaling) {
  const json* const outer = find_key(object, "original_max_position_embeddings");
  const bool is_used = scaling.type == Type::kLlama3 || scaling.type == Type::kYarn;
  if (outer == nullptr || !is_used || *outer == scaling.original_max_position_embeddings) return {};
  return bad_key("original_max_position_embeddings",
                 std::string("found ")
                     .append(outer->dump())
                     .append(", but the rotary embedding's is ")
                     .append(std::to_string(scaling.original_max_position_embeddings)));
}

}  // namespace

Result<void> decode_rope(const json& object, ModelConfig& config) {
  const auto number = [&object](const char* key, double& out) -> Result<void> {
    const json* const value = find_key(object, key);
    if (value == nullptr) return {};
    if (!value->is_number() || value->get<double>() <= 0) {
      return bad_key(key, "must be a number above 0, found " + value->dump());
    }
    out = value->get<double>();
    return {};
  };
  RETURN_IF_ERROR(number("rope_theta", config.rope_theta));
  RETURN_IF_ERROR(number("partial_rotary_factor", config.partial_rotary_factor));
  RETURN_IF_ERROR(number("rope_local_base_freq", config.rope_local_theta));
  const double outer_theta = config.rope_theta;
  const bool has_new = find_key(object, "rope_parameters") != nullptr;
  const char* const key = has_new ? "rope_parameters" : "rope_scaling";
  const json* const rope = find_key(object, key);
  if (rope == nullptr) return {};
  const json* const old_style = find_key(object, "rope_scaling");
  if (old_style != nullptr && *old_style != *rope) {
    return bad_key("rope_scaling", old_style->dump() + " differs from rope_parameters");
  }
  if (rope->is_object() && rope->contains("full_attention")) {
    RETURN_IF_ERROR(read_by_layer_type(*rope, config));
    return check_first_length(object, config.rope_scaling);
  }
  RETURN_IF_ERROR(read_parameters(*rope, key, config.rope_scaling, config.rope_theta,
                                  config.partial_rotary_factor));
  RETURN_IF_ERROR(check_first_length(object, config.rope_scaling));
  if (object.value("rope_theta_given", false) && config.rope_theta != outer_theta) {
    return bad_key("rope_theta", "differs from rope_parameters.rope_theta");
  }
  return {};
}

nlohmann::ordered_json encode_rope(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  nlohmann::ordered_json rope = {{"rope_type", "default"}, {"rope_theta", config.rope_theta}};
  if (config.partial_rotary_factor != 1) {
    rope["partial_rotary_factor"] = config.partial_rotary_factor;
  }
  if (scaling.type != Type::kDefault) rope["factor"] = scaling.factor;
  if (scaling.type == Type::kLinear) rope["rope_type"] = "linear";
  if (scaling.type == Type::kLlama3) {
    rope["rope_type"] = "llama3";
    rope["low_freq_factor"] = scaling.low_freq_factor;
    rope["high_freq_factor"] = scaling.high_freq_factor;
  }
  if (scaling.type == Type::kYarn) {
    rope["rope_type"] = "yarn";
    rope["beta_fast"] = scaling.beta_fast;
    rope["beta_slow"] = scaling.beta_slow;
    rope["truncate"] = scaling.truncate;
    rope["attention_factor"] = scaling.attention_factor;
  }
  if (scaling.original_max_position_embeddings > 0) {
    rope["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  if (config.rope_local_theta == 0) return rope;
  return {
      {"full_attention", rope},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", config.rope_local_theta}}}};
}

}  // namespace lockstep::common
