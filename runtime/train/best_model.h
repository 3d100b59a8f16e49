// The model of the lowest validation loss, which is exported where early stopping is asked for
// (RankState::wants_best()). It is a checkpoint like any other, and pruning spares it.
//
// Note [Where the best model is]
// The step of a new best is saved at once, behind training, and every manifest names the best up to
// its step (EvaluationHistory). So whichever checkpoint a restart goes on from, it knows the best
// before it, and pruning has kept that one for it: Note [Saving behind training] loses a save that
// a crash cuts short, and then the step is trained, evaluated and saved again. A run that starts
// from a named checkpoint of another output first saves the step at hand, which may be the best
// itself, then copies the best one from beside the named one; in this order, since a restart goes
// on from the newest.
#pragma once

#include <string>

#include "runtime/checkpoint/disk.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// Before the first step, with s.saver there: sees to it that the output holds the best checkpoint
// so far. If it is gone, says so; the best of what follows counts then, and losses are compared
// with the lowest as before. Every rank must call it; throws as resume_or_initialize() and saves.
// One of the output that is damaged, with a sound one to copy, is set aside.
void secure_best(RankState& s, Disk& disk);

struct ExportChoice {
  int64_t step = 0;
  std::string reason;
};

// Puts the weights to export in place: those of the last step, or the best. Every rank must call
// it, after the last save; moments and compute copies mean nothing afterwards.
// Throws RunError(kCheckpointDamaged) if the best checkpoint is damaged or gone, as load_state() if
// it cannot be read for now.
ExportChoice load_weights_to_export(RankState& s);

}  // namespace lockstep::runtime
