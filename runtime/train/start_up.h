// From a rank's environment to everything that it trains with.
#pragma once

#include <functional>
#include <optional>

#include "runtime/checkpoint/disk.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_error.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

enum class Start {
  kTrain,            // s is complete
  kAlreadyFinished,  // a restart of a finished run: nothing is left to do
};

// Reads the job file of s.env into s.job and names the run in s.run. Throws RunError:
// kInputNotFound if it is missing, kInvalidConfig if it is wrong, is for another rank count, or the
// ranks do not divide the micro-batches.
void load_job(RankState& s);

// The second half of load_job(): names the run and checks the rank count of a job that is filled in
// otherwise.
void check_job(RankState& s);

// What rank 0 found in the output folder.
struct OutputVerdict {
  std::optional<RunFailure> failure;
  bool finished = false;  // by an earlier attempt of this run
};

// Prepares the output folder on rank 0 as LOCKSTEP_OUTPUT_MODE says; does nothing on other ranks.
// What another run left there is never taken for this one's, see Note [Whose output it is].
// The first thing to do after load_job(): an attempt that fails later must not leave an output that
// was to be overwritten to the next attempt. The verdict is for start_up(), which tells it to all.
OutputVerdict prepare_folder(const RankState& s, Disk& disk);

// Meets the other ranks, opens the data, and fills s up to weights and
// step. Every rank must call it, after prepare_folder(). Throws RunError with the typed code of
// what is wrong here, PeerLostError if it is wrong elsewhere, and what rendezvous and collectives
// throw; s then holds what was there.
Start start_up(RankState& s, const OutputVerdict& output, Disk& disk, StatusBoard& board);

// Fills s.units, s.strategy and what build_parallelism() fills; runs once the ranks have met.
using BuildModel = std::function<FillFirstWeights()>;
// The same for a model of the caller's own.
Start start_up(RankState& s, const OutputVerdict& output, Disk& disk, StatusBoard& board,
               const BuildModel& build);

// Fills s.parallelism, s.optimizer and s.global_norm for s.units. Every rank must call it; throws
// as make_parallelism().
void build_parallelism(RankState& s, common::Strategy strategy);

}  // namespace lockstep::runtime
