#include "operator/convert/aitraining_tuning.h"

#include <sstream>
#include <string>

#include "operator/convert/aitraining_keys.h"
#include "operator/convert/hub.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr const char* kAllWeights = "task reward trains all weights: its head begins untrained";

// A parameter of LoRA, which counts under peft only.
Take lora(const char* field) {
  return [field](const json& value, Draft& draft) -> std::optional<Verdict> {
    if (!is_on(draft, "peft")) return mapped("of no effect: peft is off");
    if (task_in(draft) == "reward") return refused(kAllWeights);
    return draft.map(std::string("train.lora.").append(field), value);
  };
}

// Names of modules: a list here, there a list or a text with commas.
std::optional<Verdict> take_lora_targets(const json& value, Draft& draft) {
  if (!value.is_string()) return lora("targets")(value, draft);
  json names = json::array();
  std::istringstream text(value.get<std::string>());
  for (std::string name; std::getline(text >> std::ws, name, ',');) names.push_back(name);
  return lora("targets")(names, draft);
}

std::optional<Verdict> take_peft(const json& value, Draft& draft) {
  if (is_off(value)) return mapped("off, as here");
  if (task_in(draft) == "reward") return refused(kAllWeights);
  if (parameter(draft, "merge_adapter") == nullptr) {
    draft.assume("train.lora.merge", true, "AITraining's default");
  }
  if (parameter(draft, "lora_r") != nullptr) return mapped("lora_r says the rank");
  return draft.map("train.lora.rank", 16);
}

bool distills(const Draft& draft) {
  return task_in(draft) == "distill";
}

// A parameter of distillation, which counts under that task only.
Take of_teacher(const char* field) {
  return [field](const json& value, Draft& draft) -> std::optional<Verdict> {
    if (!distills(draft)) return mapped("of no effect: the task is not distillation");
    return draft.map(std::string("train.distill.").append(field), value);
  };
}

std::optional<Verdict> take_teacher(const json& value, Draft& draft) {
  if (is_off(value)) return mapped("off, as here");
  if (!distills(draft)) return refused("needs task llm-distillation");
  return take_model("train.distill.teacher", value, draft);
}

std::optional<Verdict> take_use_distillation(const json& value, Draft& draft) {
  if (is_off(value)) return mapped("off, as here");
  if (!distills(draft)) return refused("needs task llm-distillation");
  return changed("the data's own answers are learned from, not texts that the teacher writes");
}

}  // namespace

Table adapter_rows() {
  return {{"peft", take_peft},
          {"lora_r", lora("rank")},
          {"lora_alpha", lora("alpha")},
          {"lora_dropout", lora("dropout")},
          {"target_modules", take_lora_targets},
          {"merge_adapter", lora("merge")}};
}

Table distillation_rows() {
  constexpr const char* kOneTemplate = "both models see the same tokens";
  return {{"use_distillation", take_use_distillation},
          {"teacher_model", take_teacher},
          {"distill_temperature", of_teacher("temperature")},
          {"distill_alpha", of_teacher("alpha")},
          {"distill_max_teacher_length", without_effect("both share data.sequenceLength")},
          {"teacher_prompt_template", refuse_unless_off(kOneTemplate)},
          {"student_prompt_template", refuse_unless_off(kOneTemplate)}};
}

void assume_distillation_defaults(Draft& draft) {
  if (!distills(draft)) return;
  constexpr const char* kDefault = "AITraining's default";
  draft.assume("train.distill.temperature", 3, kDefault);
  draft.assume("train.distill.alpha", 0.7, kDefault);
}

}  // namespace lockstep::convert
