// Saves a rank's state as its part of a checkpoint of all ranks, behind training.
//
// Note [Saving behind training]
// A save has two phases. Writing: every rank's disk thread writes and syncs its shard. Publishing:
// rank 0's disk thread writes the manifest and renames the folder. No thread but training's speaks
// to other ranks, since collectives come in one order on all of them. So the ranks tell one another
// in the control exchange of every step how far their disk threads are (SaveProgress); all of them
// see the same, and after the step in which all are done, all complete the phase. Whoever cannot
// wait for a later step (the next save, a stop, the end) calls finish(), which waits and completes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/disk_thread.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/slice_snapshot.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/comm/collective.h"
#include "runtime/common/log.h"
#include "runtime/train/status_board.h"
#include "runtime/train/step_guard.h"

namespace lockstep::runtime {

// Up to where a checkpoint was trained.
struct SavePoint {
  int64_t step = 0;
  int64_t samples_consumed = 0;  // up to and with `step`
  StepHistory history;
  EvaluationHistory evaluations;
  bool is_scaled = false;  // whether the history's loss scale means anything
};

struct SaverOptions {
  std::string output;         // LOCKSTEP_OUTPUT
  std::string run;            // identity, as the output was prepared for
  bool async = true;          // false: begin() returns when the checkpoint is published
  int64_t keep = 2;           // checkpoints
  std::string synced_before;  // a file that is synced before the shard is; empty for none
  Manifest manifest;          // what is the same at every step
};

// Every rank must call begin(), advance() and finish() in the same order. All three throw
// RunError(kOutputUnwritable) on the rank that could not write or publish, PeerLostError on the
// others, and what collectives throw. The earlier checkpoints are then as they were.
class CheckpointSaver {
 public:
  // `collective`, `disk` and `board` must outlive this object.
  //   slices: of the size of those that begin() will get; with options.async as much memory is
  //   taken.
  CheckpointSaver(SaverOptions options, std::span<const UnitSlice> slices, Collective& collective,
                  Disk& disk, common::Log log, StatusBoard& board);

  // Bytes of the snapshot; 0 if saves block.
  int64_t snapshot_bytes() const { return snapshot_ ? snapshot_->num_bytes() : 0; }

  // Begins the checkpoint of `point`: finishes the one before, copies `slices`, and returns while
  // they are written.
  void begin(const SavePoint& point, std::span<const UnitSlice> slices);

  // The same for slices that are not in memory as a whole: returns when they are written; what is
  // left is done behind training.
  void begin_visiting(const SavePoint& point, const VisitSlices& visit);

  // How far this rank is, for the step's control exchange.
  SaveProgress progress() const;
  // Completes the phase if all ranks are done with it, or one has failed.
  //   by_rank: what all ranks told in the same exchange.
  void advance(std::span<const SaveProgress> by_rank);

  // Blocks until the checkpoint under way is published; fine if there is none.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { kNone, kWriting, kPublishing };

  void start(const SavePoint& point);
  void complete_writing(common::Result<void> mine);
  void complete_publishing(common::Result<void> mine);
  void complete_phase(common::Result<void> mine);
  common::Result<void> write(const VisitSlices& visit);
  common::Result<void> publish_pieces();

  const SaverOptions options_;
  Collective& collective_;
  Disk& disk_;
  const common::Log log_;
  StatusBoard& board_;
  std::optional<SliceSnapshot> snapshot_;

  Phase phase_ = Phase::kNone;
  Manifest manifest_;  // of the checkpoint under way
  Clock::time_point begun_at_;
  // Written by jobs of thread_, read after its await().
  std::vector<Piece> pieces_;
  std::vector<std::string> warnings_;
  DiskThread thread_;  // last: it ends before what its jobs use
};

}  // namespace lockstep::runtime
