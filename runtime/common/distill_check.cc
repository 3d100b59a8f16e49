#include "runtime/common/train_config.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {

void check_distill(Relations& out) {
  const nlohmann::json* task = out.find("task");
  const bool distills = task != nullptr && *task == "distill";
  const bool has_section = out.find("distill") != nullptr;
  if (distills && !has_section) {
    out.report(".distill.teacher", "is required: the task is distill",
               "name the model to learn from, a Hugging Face directory");
  } else if (!distills && has_section) {
    out.report(".distill", "needs task distill", "set task: distill");
  }
}

}  // namespace lockstep::common
