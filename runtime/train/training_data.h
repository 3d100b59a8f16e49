// From what the configuration names as data to what a rank trains on.
#pragma once

#include <chrono>
#include <string>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/result.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

// Opens s.samples and s.validation, and decides the number of steps if the configuration gives
// epochs. JSON lines become token files in OUTPUT/tokens first, written by rank 0 and used again by
// later attempts and runs while the files stay as they are; see runtime/README.md.
// Every rank must call it, after meeting; blocks until the data is ready on all, in phase
// "tokenizing" of `board` while a token file is written. Throws RunError with the typed code of
// what is wrong here, PeerLostError if it is wrong elsewhere.
void open_data(RankState& s, Disk& disk, StatusBoard& board);

// The time that templates are told, kept in `folder`, that of tokens: one for all attempts that
// write to an output, so that those which go on find the tokens of those before. Writes it if it is
// not there. Errors of the disk; kDataLoss if it is no time.
common::Result<std::chrono::system_clock::time_point> template_time(Disk& disk,
                                                                    const std::string& folder);

}  // namespace lockstep::runtime
