// The verdict on a lost rank, carried into the status: another attempt of the whole gang, or the
// end.
#pragma once

#include "operator/plan/failure.h"
#include "operator/plan/plan.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

// failurePolicy.rules first, then the table's own verdict, then the budget.
Plan restart_or_fail(const Situation& s, Plan next, RankFailure cause);

}  // namespace lockstep::plan
