// One optimizer step of one rank.
#pragma once

#include <span>
#include <vector>

#include "runtime/train/rank_state.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

// Trains on this rank's micro-batches of step `s.step`, updates its weights, and raises s.step.
//   stop_wished: this rank was asked to stop; StepStats::stop tells whether any rank was.
// Every rank must call it. Blocks for the step's collectives.
// A step whose loss or gradient is not finite is skipped, see judge_step(); throws
// RunError(kNonFinite) if there were too many in a row. The weights are then those before, and a
// checkpoint that was under way is published. Throws what collectives throw.
StepStats train_step(RankState& s, bool stop_wished);

// What every rank tells the others once per step.
struct StepControl {
  std::vector<double> micro_losses;  // sum over the micro-batch's tokens, by index in the batch
  std::vector<double> busy_seconds;  // by rank: as StepClock::busy_seconds()
  bool stop = false;                 // any rank's wish
  std::vector<SaveProgress> saves;   // by rank
};

// One rank's part of it.
struct OwnControl {
  std::span<const int64_t> micro_batches;  // equally many on every rank
  std::span<const double> losses;          // of those
  double busy_seconds = 0;
  bool stop_wished = false;
  SaveProgress save = SaveProgress::kNone;
};

// Exchanges StepControl between all ranks in one all-gather.
StepControl exchange_control(Collective& collective, const OwnControl& own);

}  // namespace lockstep::runtime
