// The loss on validation data, and stopping by it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "runtime/checkpoint/manifest.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

// Whether the configuration asks for an evaluation after `step` steps.
bool evaluation_is_due(const common::TrainConfig& config, int64_t step);

// What is known after an evaluation, from what was known before it. Equal losses are not better:
// the earliest is the best.
EvaluationHistory with_evaluation(EvaluationHistory history, int64_t step, double loss);

// Whether the last `patience` evaluations brought nothing better than one before them. Never with
// patience 0. A function of the losses alone, so that all ranks and a resumed run decide alike.
bool stops_early(const EvaluationHistory& history, int64_t patience);

// Runs the model forward over all of s.validation. Micro-batches are shared among the ranks and
// their losses added by index, so the loss has the same bits on any number of ranks.
//   stop_wished: asked between micro-batches; on any rank's wish there is no result.
// Every rank must call it, between steps. Throws RunError(kNonFinite) if the loss is not finite,
// and what data and collectives throw.
std::optional<Evaluation> evaluate(RankState& s, const std::function<bool()>& stop_wished);

}  // namespace lockstep::runtime
