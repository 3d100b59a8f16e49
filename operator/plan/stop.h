// Suspension and scaling.
//
// Note [Stopping in good order]
// Suspension, scaling and evictions stop the gang by SIGTERM: all ranks save the same step. Until
// they ended, or their grace period did, nobody is killed and no new attempt is made. A stop that
// has begun is finished even if the wish for it is withdrawn.
#pragma once

#include <cstdint>
#include <optional>

#include "operator/plan/plan.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

// True while the gang is to stop, or has begun to.
//   ranks: the world size that the job may have now; nothing if it cannot run at all.
bool wants_stop(const Situation& s, std::optional<int64_t> ranks);

// Stops the gang. Once it has stopped: suspended, or on with an attempt of `ranks` ranks.
Plan stop(const Situation& s, Plan next, std::optional<int64_t> ranks);

// Nothing runs and nothing may, because the spec was refused: says why.
Plan refuse(Plan next);

}  // namespace lockstep::plan
