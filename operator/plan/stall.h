// A gang that neither fails nor makes steps.
//
// Note [What a stall is]
// Ranks tell at /status how long ago they finished a step or changed phase. Rank 0 is asked all the
// time; the others only once rank 0 has been silent or idle for half of stallTimeoutSeconds. The
// gang has stalled when all running ranks were asked and every one that answers has been idle for
// the whole timeout. Ranks that do not answer prove nothing by themselves: if none answers, it may
// be that we cannot reach them. But beside ranks that wait, a silent one is the one waited for.
#pragma once

#include <chrono>
#include <optional>

#include "operator/plan/failure.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

inline constexpr const char* kStalledReason = "Stalled";

// The rank that the gang waits for: one that does not answer, else the one with the oldest
// heartbeat. Nothing if the gang has not stalled, or nobody can tell.
std::optional<RankFailure> find_stall(const Situation& s);

// True if it is time to ask every rank, not only rank 0.
//   idle: how long rank 0 has been silent, or has made no step.
bool asks_every_rank(const api::TrainingJob& job, std::chrono::seconds idle);

}  // namespace lockstep::plan
