// A rank's whole life between its environment and its exit code.
#pragma once

#include "runtime/checkpoint/disk.h"
#include "runtime/common/exit_code.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/start_up.h"
#include "runtime/train/status_board.h"
#include "runtime/train/stop_signal.h"

namespace lockstep::runtime {

// Starts, trains, saves and exports the job of s.env, after prepare_folder(). Returns kSucceeded,
// or kPreempted when the ranks agreed to stop and saved. Throws otherwise (see verdict_of()).
common::ExitCode run_job(RankState& s, const OutputVerdict& output, Disk& disk, StatusBoard& board,
                         StopSignal& stop);

}  // namespace lockstep::runtime
