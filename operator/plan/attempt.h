// How an attempt begins in the status.
#pragma once

#include <cstdint>
#include <string_view>

#include "operator/api/training_job.h"

namespace lockstep::plan {

struct NewAttempt {
  int64_t number = 0;
  int64_t ranks = 1;          // world size
  int64_t ranks_per_pod = 1;  // divides it
  std::string_view reason;    // kStartingReason or kRestartingReason
};

// Records a new attempt.
//
// Note [An attempt is recorded before it is created]
// The number and the size of an attempt (ranks, ranks per pod) are written to the status in a plan
// that touches nothing. Pods, ConfigMap and environment are made only from what is recorded. So
// whatever a crash leaves behind was made for the recorded attempt, or for an older one and is
// deleted; a change of spec.ranks in between cannot mix two sizes in one gang.
void record_attempt(api::TrainingJobStatus& status, const NewAttempt& attempt, api::Time now);

// Some attempt was recorded before.
bool has_begun(const api::TrainingJobStatus& status);

// An attempt is recorded in `next` that is not in `old`.
bool begins_attempt(const api::TrainingJobStatus& old, const api::TrainingJobStatus& next);

}  // namespace lockstep::plan
