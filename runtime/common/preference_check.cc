#include <string>

#include "runtime/common/train_config.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

constexpr const char* kChooseTask = "set task: dpo or orpo";

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

void check_terms(Relations& out, bool is_dpo) {
  const json* loss = out.find("preference/lossType");
  const bool is_sigmoid = loss == nullptr || *loss == "sigmoid";
  if (!is_dpo && !is_sigmoid) {
    out.report(".preference.lossType", "needs task dpo, found " + loss->dump(),
               "remove it: orpo has one loss");
  }
  const json* smoothing = out.find("preference/labelSmoothing");
  if (smoothing == nullptr || *smoothing == 0 || (is_dpo && is_sigmoid)) return;
  out.report(".preference.labelSmoothing", "needs task dpo and lossType sigmoid", "remove it");
}

}  // namespace

bool learns_from_pairs(const json& task) {
  return task == "dpo" || task == "orpo";
}

void check_preference(Relations& out) {
  const json* task = out.find("task");
  if (task != nullptr && learns_from_pairs(*task)) {
    check_pair_data(out, task->get<std::string>());
    check_terms(out, *task == "dpo");
    return;
  }
  if (out.find("preference") != nullptr) {
    out.report(".preference", "needs task dpo or orpo", kChooseTask);
  }
  for (const char* const column : {"chosen", "rejected"}) {
    if (out.find(std::string("data/columns/").append(column)) == nullptr) continue;
    out.report(std::string(".data.columns.").append(column), "needs task dpo or orpo", kChooseTask);
    return;
  }
}

}  // namespace lockstep::common
