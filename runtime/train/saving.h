// Saves the state of all ranks as one checkpoint.
#pragma once

#include "runtime/checkpoint/disk.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// Writes OUTPUT/checkpoints/step-N of step s.step. Every rank must call it; blocks until it is
// published on stable storage. On an error the earlier checkpoints are as
// they were: throws RunError(kOutputUnwritable) on the rank that failed, PeerLostError on others.
void save_checkpoint(RankState& s, Disk& disk);

}  // namespace lockstep::runtime
