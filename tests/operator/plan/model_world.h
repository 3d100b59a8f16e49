// The part of the model's moves that the operator has no hand in.
#pragma once

#include <vector>

#include "tests/operator/plan/model_moves.h"
#include "tests/operator/plan/model_state.h"

namespace lockstep::plan {

// Scheduler, kubelet and garbage collector, on one pod or child. False if `move` is none of theirs.
bool move_pod(State& s, const Move& move);
// The user, accidents, and the end of an operator's process.
void disturb(State& s, const Move& move);

// What the cluster, a stranger who has had enough, and the garbage collector can do.
void list_cluster_moves(const State& s, std::vector<Move>& moves);
// What may happen beyond that, within the state's allowance.
void list_disturbances(const State& s, std::vector<Move>& moves);

}  // namespace lockstep::plan
