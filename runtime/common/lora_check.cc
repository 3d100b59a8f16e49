#include <algorithm>
#include <string>
#include <vector>

#include "runtime/common/lora.h"
#include "runtime/common/model_json.h"
#include "runtime/common/suggest.h"
#include "runtime/common/train_config.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

std::string module_hint(const ModelConfig& config, const std::string& target) {
  const std::vector<std::string> names = module_names(config);
  const std::optional<std::string> meant = closest(target, names);
  std::string hint = meant ? std::string("did you mean ").append(*meant).append("? ") : "";
  hint.append("modules of ").append(config.model_type).append(": ").append(join(names));
  if (config.has_experts()) hint.append("; experts take no adapters");
  return hint;
}

}  // namespace

void check_lora(Relations& out) {
  const json* lora = out.find("lora");
  if (lora == nullptr || !lora->is_object()) return;
  const json* init = out.find("model/init");
  if (out.find("model/path") == nullptr) {
    out.report(".lora", "needs model.path: adapters are nothing without the weights beside them",
               "name a Hugging Face directory, or remove lora");
  } else if (init != nullptr && *init == "random") {
    out.report(".lora", "needs model.init pretrained, found \"random\"",
               "random weights are not exported, and the adapters fit no others");
  }
  if (out.find("model/frozen") != nullptr) {
    out.report(".model.frozen", "and lora exclude each other",
               "lora freezes all of the model's own weights");
  }
  const json targets = lora->value("targets", json::array());
  const bool names_all =
      std::find(targets.begin(), targets.end(), json(kAllLinear)) != targets.end();
  if (names_all && targets.size() > 1) {
    out.report(".lora.targets", "all-linear already names every module", "name nothing else");
  }
  const json path = lora->value("path", json());
  if (path.is_string() && path.get<std::string>().starts_with("hf://")) {
    out.report(".lora.path", "hf:// is not supported yet, found " + path.dump(),
               "download the adapter, and name its folder");
  }
}

Problems check_lora_targets(const json& train, const std::string& prefix) {
  Relations out{.train = train, .prefix = prefix, .problems = {}};
  const json* targets = out.find("lora/targets");
  if (targets == nullptr) return {};
  const auto model = decode_model_json(train.at("model").at("config"));
  if (!model) return {};  // said by others
  const std::vector<LinearModule> modules = linear_modules(*model, 0);
  for (std::size_t i = 0; i < targets->size(); ++i) {
    const auto target = targets->at(i).get<std::string>();
    const bool is_known = target == kAllLinear || std::any_of(modules.begin(), modules.end(),
                                                              [&](const LinearModule& module) {
                                                                return is_target(target, module);
                                                              });
    if (is_known) continue;
    out.report(std::string(".lora.targets[").append(std::to_string(i)).append("]"),
               std::string("\"").append(target).append("\" is no module of the model"),
               module_hint(*model, target));
  }
  return std::move(out.problems);
}

}  // namespace lockstep::common
