#include "operator/plan/budget.h"

#include <algorithm>

namespace lockstep::plan {

int64_t newest_checkpoint(const api::TrainingJobStatus& status) {
  return status.progress ? status.progress->last_checkpoint_step.value_or(0) : 0;
}

std::optional<api::RestartBudget> charge(const api::RestartBudget& budget, int64_t max_restarts,
                                         int64_t checkpoint_step) {
  const bool refills = checkpoint_step > budget.checkpoint_step;
  const int64_t used = refills ? 0 : budget.used;
  if (used >= max_restarts) return std::nullopt;
  return api::RestartBudget{.used = used + 1,
                            .checkpoint_step = std::max(budget.checkpoint_step, checkpoint_step)};
}

}  // namespace lockstep::plan
