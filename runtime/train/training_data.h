// From what the configuration names as data to what a rank trains on.
#pragma once

#include "runtime/checkpoint/disk.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// Opens s.samples and s.validation, and decides the number of steps if the configuration gives
// epochs. JSON lines become token files in OUTPUT/tokens first, written by rank 0 and used again by
// later attempts and runs while the files stay as they are; see runtime/README.md.
// Every rank must call it, after meeting; blocks until the data is ready on all. Throws RunError
// with the typed code of what is wrong here, PeerLostError if it is wrong elsewhere.
void open_data(RankState& s, Disk& disk);

}  // namespace lockstep::runtime
