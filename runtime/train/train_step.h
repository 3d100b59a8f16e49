// One optimizer step of one rank.
#pragma once

#include <cstdint>
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

// What a rank has computed when the gradients of a step are final.
struct ComputedStep {
  std::vector<double> losses;  // of its micro-batches, in order: sums over their items (tokens)
  // Items with a loss of the global batch, by which the gradients are divided already; 0: they are
  // gradients of sums, and num_items tells.
  int64_t num_labels = 0;
  std::vector<int64_t> num_items;  // of each micro-batch; empty if num_labels is given
  // With pairs: how many the global batch has, by which loss and gradients are divided in place of
  // num_labels, and what was measured of each micro-batch's.
  int64_t num_pairs = 0;
  std::vector<PairFigures> figures;
  double lr = 0;
};

// Ends the step for which clock and collective have begun, after Parallelism::finish_backward():
// exchanges losses, clips, updates the weights or skips the step, and raises s.step. Order,
// blocking and errors as train_step(); RunError(kInvalidData) on all ranks if nothing has a loss.
StepStats finish_step(RankState& s, const ComputedStep& computed, bool stop_wished);

// What every rank tells the others once per step.
struct StepControl {
  std::vector<double> micro_losses;  // sum over the micro-batch's tokens, by index in the batch
  int64_t num_items = 0;             // sum over all micro-batches; 0 if they are not told
  std::vector<PairFigures> figures;  // by index in the batch; empty if there are no pairs
  std::vector<double> busy_seconds;  // by rank: as StepClock::busy_seconds()
  bool stop = false;                 // any rank's wish
  std::vector<SaveProgress> saves;   // by rank
};

// One rank's part of it.
struct OwnControl {
  std::span<const int64_t> micro_batches;  // equally many on every rank
  std::span<const double> losses;          // of those
  std::span<const int64_t> num_items;      // of those; empty: not told
  std::span<const PairFigures> figures;    // of those; empty on all ranks without pairs
  double busy_seconds = 0;
  bool stop_wished = false;
  SaveProgress save = SaveProgress::kNone;
};

// Exchanges StepControl between all ranks in one all-gather.
StepControl exchange_control(Collective& collective, const OwnControl& own);

}  // namespace lockstep::runtime
