#include "operator/convert/aitraining_keys.h"

#include "runtime/common/train_config.h"

namespace lockstep::convert {

using nlohmann::json;

const json* parameter(const Draft& draft, const std::string& name) {
  for (const char* const group : {"params.", "", "data.", "hub."}) {
    if (const json* found = draft.key(group + name)) return found;
  }
  return nullptr;
}

bool is_on(const Draft& draft, const std::string& name) {
  const json* found = parameter(draft, name);
  return found != nullptr && !is_off(*found);
}

std::string task_of(std::string trainer) {
  if (trainer.starts_with("llm")) trainer.erase(0, trainer.starts_with("llm-") ? 4 : 3);
  if (trainer.empty() || trainer == "generic" || trainer == "default") return "pretrain";
  if (trainer == "distillation") return "distill";
  return trainer;
}

std::string task_in(const Draft& draft) {
  const json* trainer = parameter(draft, "trainer");
  const std::string named = draft.text("task");
  const bool is_plain = !named.starts_with("llm-") && trainer != nullptr && trainer->is_string();
  const std::string said = is_plain ? task_of(trainer->get<std::string>()) : "pretrain";
  return said == "pretrain" ? task_of(named) : said;
}

bool has_conversations(const Draft& draft) {
  return common::learns_from_conversations(task_in(draft));
}

bool has_pairs(const Draft& draft) {
  return common::learns_from_pairs(task_in(draft));
}

}  // namespace lockstep::convert
