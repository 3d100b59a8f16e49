// failurePolicy.maxRestarts: how often a job may restart between two checkpoints.
//
// Note [The budget refills on progress]
// A count over the whole life of a job ends long runs for unrelated accidents, and a count per hour
// lets a job that cannot run try for ever. What tells them apart is checkpointed progress: a job
// that has saved a newer checkpoint since the last restart that was charged has its full budget
// again. Only the step of that checkpoint needs to be remembered. A checkpoint that became known
// after the restart counts as progress even if it was saved before: that refills once too often,
// never for ever.
#pragma once

#include <cstdint>
#include <optional>

#include "operator/api/training_job.h"

namespace lockstep::plan {

// The newest checkpoint that is known of the job; 0 = none.
int64_t newest_checkpoint(const api::TrainingJobStatus& status);

// `budget` after one more restart was taken from it; nothing if none is left.
std::optional<api::RestartBudget> charge(const api::RestartBudget& budget, int64_t max_restarts,
                                         int64_t checkpoint_step);

}  // namespace lockstep::plan
