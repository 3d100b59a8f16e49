// How a job ends, and what becomes of it afterwards.
#pragma once

#include <string>

#include "operator/plan/plan.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

inline constexpr const char* kDeadlineExceeded = "DeadlineExceeded";

// Every rank succeeded.
Plan succeed(const Situation& s, Plan next);

// The job fails for good.
//   reason: of the condition Failed, CamelCase.
Plan fail(const Situation& s, Plan next, const std::string& reason, const std::string& message);

// The job was active for activeDeadlineSeconds.
Plan exceed_deadline(const Situation& s, Plan next);

// Finished: pods go as cleanPodPolicy says, the job itself when its time to live is over. Ranks
// that still run after DeadlineExceeded are stopped in good order whatever the policy: the deadline
// is what was asked for, and their checkpoint may be worth having.
Plan clean_up(const Situation& s, Plan next);

}  // namespace lockstep::plan
