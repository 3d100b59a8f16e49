// Where a job's time goes: waiting, starting, making steps, making steps again, being down.
//
// Note [Accounting by phases]
// The status says which phase the present time counts to, and since when. A plan that changes the
// phase adds what went by to the old one. Nothing is counted twice or left out, however often an
// operator dies: the sums and `since` are written together.
#pragma once

#include "operator/api/training_job.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

// Brings `status.goodput` up to date with `status`, the next status of the job.
void account(const Situation& s, api::TrainingJobStatus& status);

// Moves the steps since the newest checkpoint, and the time that they took, from productive to
// lost. For the status of an attempt that failed, before the next one is recorded.
void lose_steps(const Situation& s, api::TrainingJobStatus& status);

}  // namespace lockstep::plan
