// The times at which a job's life ends: activeDeadlineSeconds and ttlSecondsAfterFinished.
#pragma once

#include <optional>

#include "operator/api/training_job.h"

namespace lockstep::plan {

// When the job has been active for activeDeadlineSeconds: from its first attempt on, without the
// time that it was suspended or waited in a queue. Nothing while it does, is about to be suspended,
// has not begun, or has no such limit.
std::optional<api::Time> active_deadline(const api::TrainingJob& job);

// When a finished job is to be deleted; nothing if it stays.
std::optional<api::Time> expiry(const api::TrainingJob& job);

}  // namespace lockstep::plan
