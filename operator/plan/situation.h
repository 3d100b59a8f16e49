// All that a decision is made from, gathered once per plan().
#pragma once

#include <chrono>

#include "operator/api/training_job.h"
#include "operator/plan/gang.h"
#include "operator/plan/plan.h"

namespace lockstep::plan {

// When to plan again after a status was changed, if its write is not seen coming back.
inline constexpr std::chrono::seconds kNextRound{1};

// Borrows the arguments of plan(), for as long as plan() runs.
struct Situation {
  const api::TrainingJob& job;
  const Observation& seen;
  const Settings& settings;
  api::Time now;
  Gang gang;
};

}  // namespace lockstep::plan
