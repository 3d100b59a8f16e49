#include "runtime/common/window_json.h"

#include <algorithm>

#include "runtime/common/model_keys.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

Result<void> read_layer_types(const json& types, ModelConfig& config) {
  if (!types.is_array() || static_cast<int64_t>(types.size()) != config.num_hidden_layers) {
    return bad_key("layer_types", "must have one entry per layer, found " + types.dump());
  }
  config.slides.clear();
  for (const json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return bad_key("layer_types", type.dump() +
                                        " is not supported, only \"full_attention\" and " +
                                        "\"sliding_attention\"");
    }
    config.slides.push_back(type == "sliding_attention");
  }
  const bool any =
      std::find(config.slides.begin(), config.slides.end(), true) != config.slides.end();
  if (any && config.sliding_window == 0) {
    return bad_key("layer_types", "has \"sliding_attention\", but there is no sliding_window");
  }
  return {};
}

}  // namespace

Result<void> decode_windows(const ModelFamily& family, const json& object, ModelConfig& config) {
  if (const json* const used = find_key(object, "use_sliding_window")) {
    if (!used->is_boolean()) return bad_key("use_sliding_window", "must be true or false");
    if (!used->get<bool>()) config.sliding_window = 0;
  }
  const json* const types = find_key(object, "layer_types");
  int64_t every = family.full_attention_every;
  const json* const pattern =
      family.has_window_pattern ? find_key(object, "sliding_window_pattern") : nullptr;
  if (pattern != nullptr) {
    if (!pattern->is_number_integer() || pattern->get<int64_t>() < 1) {
      return bad_key("sliding_window_pattern",
                     "must be an integer of at least 1, found " + pattern->dump());
    }
    every = pattern->get<int64_t>();
  }
  // Of a family that has no such key, Transformers passes over it.
  const json* const first = json::parse(family.defaults).contains("max_window_layers")
                                ? find_key(object, "max_window_layers")
                                : nullptr;
  if (types != nullptr) {
    RETURN_IF_ERROR(read_layer_types(*types, config));
  } else if (every > 0 || (first != nullptr && config.sliding_window > 0)) {
    if (first != nullptr && !first->is_number_integer()) {
      return bad_key("max_window_layers", "must be an integer, found " + first->dump());
    }
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      config.slides.push_back(every > 0 ? (i + 1) % every != 0 : i >= first->get<int64_t>());
    }
  }
  if (std::find(config.slides.begin(), config.slides.end(), false) == config.slides.end()) {
    config.slides.clear();  // alike: as where nobody tells
  }
  return {};
}

}  // namespace lockstep::common
