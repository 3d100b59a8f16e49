// What a rank saves of its state, and when.
#pragma once

#include "runtime/checkpoint/disk.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

// Makes s.saver, which takes the memory of its snapshot, for a complete `s`. `disk` and `board`
// must outlive it.
void make_saver(RankState& s, Disk& disk, StatusBoard& board);

// True if a checkpoint is due after step s.step, unasked: every N steps, at the end, and where
// validation was best if that model is to be exported.
bool save_is_due(const RankState& s);

// Begins the checkpoint of step s.step; throws as CheckpointSaver::begin().
void begin_save(RankState& s);

}  // namespace lockstep::runtime
