// All that a decision is made from, gathered once per plan().
#pragma once

#include "operator/api/training_job.h"
#include "operator/plan/gang.h"
#include "operator/plan/plan.h"

namespace lockstep::plan {

// Borrows the arguments of plan(), for as long as plan() runs.
struct Situation {
  const api::TrainingJob& job;
  const Observation& seen;
  const Settings& settings;
  api::Time now;
  Gang gang;
};

}  // namespace lockstep::plan
