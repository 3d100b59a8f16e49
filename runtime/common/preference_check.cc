#include <algorithm>
#include <string>

#include "runtime/common/model_family.h"
#include "runtime/common/train_config.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

constexpr const char* kNeedsPairs = "needs task dpo, orpo or reward";
constexpr const char* kChooseTask = "set task: dpo, orpo or reward";

void check_pair_data(Relations& out, const std::string& task) {
  const json* format = out.find("data/format");
  if (format != nullptr && *format != "auto" && *format != "messages") {
    out.report(".data.format", "task " + task + " needs auto or messages, found " + format->dump(),
               "pairs are rows with chosen and rejected answers");
  }
  const json* packing = out.find("data/packing");
  if (packing != nullptr && *packing == true) {
    out.report(".data.packing", "task " + task + " does not pack: a pair is a sample",
               "remove it, or set packing: false");
  }
}

// What only some of the tasks have, where it is not what they all have.
void check_terms(Relations& out, const json& task) {
  const bool is_dpo = task == "dpo";
  const bool is_reward = task == "reward";
  const json* beta = out.find("preference/beta");
  if (is_reward && beta != nullptr && *beta != PreferenceConfig().beta) {
    out.report(".preference.beta", "needs task dpo or orpo, found " + beta->dump(),
               "remove it: the reward is what the model says");
  }
  const json* center = out.find("preference/centerCoefficient");
  if (!is_reward && center != nullptr && *center != 0) {
    out.report(".preference.centerCoefficient", "needs task reward, found " + center->dump(),
               "remove it");
  }
  const json* loss = out.find("preference/lossType");
  const bool is_sigmoid = loss == nullptr || *loss == "sigmoid";
  if (!is_dpo && !is_sigmoid) {
    out.report(".preference.lossType", "needs task dpo, found " + loss->dump(),
               "remove it: " + task.get<std::string>() + " has one loss");
  }
  const json* smoothing = out.find("preference/labelSmoothing");
  if (smoothing == nullptr || *smoothing == 0 || (is_dpo && is_sigmoid)) return;
  out.report(".preference.labelSmoothing", "needs task dpo and lossType sigmoid", "remove it");
}

// What a head that tells one number does not go with.
void check_reward(Relations& out) {
  if (out.find("lora") != nullptr) {
    out.report(".lora", "does not go with task reward: its head begins untrained",
               "remove lora: reward trains all weights");
  }
  const json* frozen = out.find("model/frozen");
  if (frozen != nullptr && std::find(frozen->begin(), frozen->end(), "head") != frozen->end()) {
    out.report(".model.frozen", "freezes the head, which begins untrained under task reward",
               "remove head from it");
  }
  const json* type = out.find("model/config/model_type");
  if (type == nullptr || !type->is_string()) return;
  const ModelFamily* const family = find_family(type->get<std::string>());
  if (family != nullptr && family->score_architecture.empty()) {
    out.report(".task",
               "reward: Transformers has no " + type->get<std::string>() +
                   " whose head tells one number, so the model could not be loaded",
               "choose a model of another family");
  }
}

}  // namespace

bool learns_from_pairs(const json& task) {
  return task == "dpo" || task == "orpo" || task == "reward";
}

bool learns_from_conversations(const json& task) {
  return task == "sft" || task == "distill";
}

void check_preference(Relations& out) {
  const json* task = out.find("task");
  if (task != nullptr && learns_from_pairs(*task)) {
    check_pair_data(out, task->get<std::string>());
    check_terms(out, *task);
    if (*task == "reward") check_reward(out);
    return;
  }
  if (out.find("preference") != nullptr) {
    out.report(".preference", kNeedsPairs, kChooseTask);
  }
  for (const char* const column : {"chosen", "rejected"}) {
    if (out.find(std::string("data/columns/").append(column)) == nullptr) continue;
    out.report(std::string(".data.columns.").append(column), kNeedsPairs, kChooseTask);
    return;
  }
}

}  // namespace lockstep::common
