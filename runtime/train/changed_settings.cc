#include "runtime/train/changed_settings.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/mixture_shares.h"
#include "runtime/common/train_config.h"

namespace lockstep::runtime {
namespace {

// Fields of spec.train that decide which numbers a step computes, besides what the manifest names.
const std::vector<std::string>& decisive_fields() {
  static const std::vector<std::string> fields = {"/model/config",
                                                  "/model/init",
                                                  "/model/frozen",
                                                  "/model/custom",
                                                  "/batch",
                                                  "/data/sequenceLength",
                                                  "/data/packing",
                                                  "/data/shuffle",
                                                  "/data/validationFraction",
                                                  "/data/sources",
                                                  "/optimizer/name",
                                                  "/seed",
                                                  "/task",
                                                  "/preference",
                                                  "/lora/rank",
                                                  "/lora/alpha",
                                                  "/lora/dropout",
                                                  "/lora/useRslora",
                                                  "/lora/targets",
                                                  "/distill/temperature",
                                                  "/distill/alpha"};
  return fields;
}

// What the field counts as: checkpoints that name no task are of pretraining, of sources only the
// shares matter (their data has fingerprints), and what a preference does not say has its default.
nlohmann::json meaning_of(const std::string& field, const nlohmann::json& train) {
  nlohmann::json value = train.value(nlohmann::json::json_pointer(field), nlohmann::json());
  if (field == "/task" && value.is_null()) return "pretrain";
  if (field == "/data/sources") return common::mixture_shares_of(train);
  if (field != "/preference") return value;
  const common::PreferenceConfig defaults;
  nlohmann::json whole = {{"beta", defaults.beta},
                          {"lossType", "sigmoid"},
                          {"labelSmoothing", defaults.label_smoothing},
                          {"centerCoefficient", defaults.center_coefficient}};
  if (value.is_object()) whole.update(value);
  return whole;
}

}  // namespace

std::string first_difference(const std::string& then_json, const std::string& now_json) {
  const nlohmann::json then = nlohmann::json::parse(then_json, nullptr, false);
  const nlohmann::json now = nlohmann::json::parse(now_json, nullptr, false);
  for (const std::string& field : decisive_fields()) {
    const nlohmann::json before = meaning_of(field, then);
    const nlohmann::json after = meaning_of(field, now);
    if (before == after) continue;
    std::string path = "train" + field;
    std::replace(path.begin(), path.end(), '/', '.');
    return path + " was " + before.dump() + " and is " + after.dump();
  }
  return "";
}

std::string changed_settings(const std::string& then_json, const std::string& now_json) {
  const nlohmann::json then = nlohmann::json::parse(then_json).flatten();
  const nlohmann::json now = nlohmann::json::parse(now_json).flatten();
  nlohmann::json all = then;
  all.update(now);
  std::string changes;
  for (const auto& [pointer, value] : all.items()) {
    const std::string before = then.contains(pointer) ? then.at(pointer).dump() : "none";
    const std::string after = now.contains(pointer) ? now.at(pointer).dump() : "none";
    if (before == after) continue;
    std::string path = "train" + pointer;
    std::replace(path.begin(), path.end(), '/', '.');
    changes.append(changes.empty() ? "" : ", ").append(path).append(" ").append(before);
    changes.append(" -> ").append(after);
  }
  return changes;
}

}  // namespace lockstep::runtime
