#include "runtime/common/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/model_family.h"
#include "runtime/common/suggest.h"
#include "runtime/common/text_file.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

Error wrong(const std::string& key, const std::string& what, const std::string& hint) {
  return {ErrorCode::kInvalidArgument, key + " " + what, hint};
}

json number_of(double value) {
  const bool is_whole = value == std::floor(value);
  return is_whole ? json(static_cast<int64_t>(value)) : json(value);
}

bool is_empty(const json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

// Others (pissa, olora, corda, loftq) change the base as well, and the adapter's file does not hold
// what it was changed to (peft/tuners/lora/layer.py: LoraLayer.update_layer).
Result<void> check_initialization(const json& config) {
  const json kind = config.value("init_lora_weights", json(true));
  if (kind.is_boolean() || kind == "gaussian" || kind == "orthogonal" || kind == "eva") return {};
  return wrong("init_lora_weights", "is " + kind.dump(),
               "save it as a plain adapter: save_pretrained(..., "
               "path_initial_model_for_weight_conversion=...)");
}

// What changes the numbers and is not ours.
Result<void> check_unsupported(const json& config) {
  const json kind = config.value("peft_type", json());
  if (kind != "LORA") return wrong("peft_type", "is " + kind.dump(), "only LORA is supported");
  const json bias = config.value("bias", json("none"));
  if (bias != "none") return wrong("bias", "is " + bias.dump(), "only none is supported");
  constexpr std::array kNotOurs = {"use_dora",
                                   "use_qalora",
                                   "use_bdlora",
                                   "lora_bias",
                                   "rank_pattern",
                                   "alpha_pattern",
                                   "layers_to_transform",
                                   "layer_replication",
                                   "modules_to_save",
                                   "exclude_modules",
                                   "target_parameters",
                                   "trainable_token_indices",
                                   "alora_invocation_tokens"};
  for (const char* const key : kNotOurs) {
    const json value = config.value(key, json());
    if (!is_empty(value)) {
      return wrong(key, "is " + value.dump(), "this part of PEFT is not supported");
    }
  }
  return check_initialization(config);
}

// PEFT spells all-linear out as the path of every module: what of it is the place in a layer. An
// adapter that leaves layers out then lacks tensors, which whoever reads them sees.
std::string place_of(const std::string& target) {
  for (const std::string_view list : {".layers.", ".h."}) {
    const std::size_t found = target.find(list);
    if (found == std::string::npos) continue;
    const std::size_t number = found + list.size();
    const std::size_t end = target.find_first_not_of("0123456789", number);
    if (end != std::string::npos && end > number && target[end] == '.') {
      return target.substr(end + 1);
    }
  }
  return target;
}

Result<std::vector<std::string>> targets_of(const json& config) {
  const json targets = config.value("target_modules", json());
  if (targets == kAllLinear) return std::vector<std::string>{std::string(kAllLinear)};
  const bool is_list = targets.is_array() && !targets.empty() &&
                       std::all_of(targets.begin(), targets.end(),
                                   [](const json& name) { return name.is_string(); });
  if (!is_list) {
    return wrong("target_modules", "is " + targets.dump(), "only a list of names is supported");
  }
  std::set<std::string> places;
  for (const json& target : targets) places.insert(place_of(target.get<std::string>()));
  return std::vector<std::string>(places.begin(), places.end());
}

std::string words_of(const std::vector<LinearModule>& modules) {
  std::vector<std::string> places;
  places.reserve(modules.size());
  for (const LinearModule& module : modules) places.push_back(module.place);
  return join(places);
}

}  // namespace

std::string encode_adapter_config(const ModelConfig& model, const LoraConfig& lora,
                                  const std::string& base_model) {
  const bool names_all = lora.targets == std::vector<std::string>{std::string(kAllLinear)};
  nlohmann::ordered_json config = {
      {"base_model_name_or_path", base_model},
      {"bias", "none"},
      {"fan_in_fan_out", family_of(model).naming == Naming::kGpt2},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"lora_alpha", number_of(lora.alpha)},
      {"lora_dropout", lora.dropout},
      {"peft_type", "LORA"},
      {"r", lora.rank},
      {"target_modules", names_all ? module_names(model) : lora.targets},
      {"task_type", "CAUSAL_LM"},
      {"use_rslora", lora.use_rslora}};
  return config.dump(2) + "\n";
}

Result<PeftAdapter> decode_adapter_config(std::string_view text) {
  const json config = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return Error{ErrorCode::kInvalidArgument, "not a JSON object", "is it an adapter_config.json?"};
  }
  RETURN_IF_ERROR(check_unsupported(config));
  const json rank = config.value("r", json());
  if (!rank.is_number_integer() || rank < 1) {
    return wrong("r", "is " + rank.dump(), "it must be at least 1");
  }
  const json alpha = config.value("lora_alpha", json());
  if (!alpha.is_number()) return wrong("lora_alpha", "is " + alpha.dump(), "it must be a number");
  PeftAdapter adapter;
  adapter.lora.rank = rank.get<int64_t>();
  adapter.lora.alpha = alpha.get<double>();
  adapter.lora.use_rslora = config.value("use_rslora", json()) == true;
  ASSIGN_OR_RETURN(adapter.lora.targets, targets_of(config));
  const json base = config.value("base_model_name_or_path", json());
  if (base.is_string()) adapter.base_model = base.get<std::string>();
  return adapter;
}

Result<PeftAdapter> read_adapter_config(const std::string& folder) {
  const std::string path = folder + "/" + kAdapterConfigFile;
  const Result<std::string> text = read_text_file(path);
  if (!text) {
    if (text.error().code != ErrorCode::kNotFound) return text.error();
    return Error{ErrorCode::kNotFound, text.error().message,
                 "name the directory of a PEFT adapter"};
  }
  Result<PeftAdapter> adapter = decode_adapter_config(*text);
  if (adapter) return adapter;
  const Error& error = adapter.error();
  return Error{error.code, path + ": " + error.message, error.hint};
}

Result<void> check_same_adapter(const ModelConfig& model, const LoraConfig& lora,
                                const std::string& folder) {
  ASSIGN_OR_RETURN(const PeftAdapter found, read_adapter_config(folder));
  const auto differs = [&](const char* field, const json& ours, const json& theirs) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string("train.lora.")
                     .append(field)
                     .append(" is ")
                     .append(ours.dump())
                     .append(", but the adapter in ")
                     .append(folder)
                     .append(" has ")
                     .append(theirs.dump()),
                 "give lora as the adapter has it"};
  };
  if (found.lora.rank != lora.rank) return differs("rank", lora.rank, found.lora.rank);
  if (found.lora.alpha != lora.alpha) {
    return differs("alpha", number_of(lora.alpha), number_of(found.lora.alpha));
  }
  if (found.lora.use_rslora != lora.use_rslora) {
    return differs("useRslora", lora.use_rslora, found.lora.use_rslora);
  }
  const std::string ours = words_of(adapted_modules(model, lora, 0));
  const std::string theirs = words_of(adapted_modules(model, found.lora, 0));
  if (ours != theirs) return differs("targets", ours, theirs);
  return {};
}

}  // namespace lockstep::common
