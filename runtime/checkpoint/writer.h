// Writing a checkpoint: every rank its shard file, then rank 0 publishes all of them by one rename.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/common/result.h"

namespace lockstep::runtime {

// A rank's share of one unit; the spans are of equal length and may be empty; moments that the
// optimizer does not have, and those of a frozen unit, are empty. Borrowed.
struct UnitSlice {
  int64_t unit = 0;
  int64_t begin_elem = 0;
  std::span<const float> weights;
  std::span<const float> moment1;
  std::span<const float> moment2;
};

using UseSlice = std::function<void(const UnitSlice&)>;
// Calls its argument with every slice of a rank, or with consecutive parts of them; the spans are
// valid during the call. What it throws passes through.
using VisitSlices = std::function<void(const UseSlice&)>;

struct ShardTarget {
  std::string output;  // LOCKSTEP_OUTPUT
  int64_t attempt = 0;
  int64_t step = 0;
  int64_t rank = 0;
};

// Writes this rank's slices to OUTPUT/checkpoints/.attempt-A-step-N/rank-R.bin and syncs them.
// Returns the pieces, for rank 0's manifest. May run on any thread; touches no published
// checkpoint. Errors carry path and reason; what was written is left behind and cleaned up by a
// later publish().
common::Result<std::vector<Piece>> write_shards(Disk& disk, const ShardTarget& target,
                                                const VisitSlices& visit);
// The same for slices that are all in memory.
common::Result<std::vector<Piece>> write_shards(Disk& disk, const ShardTarget& target,
                                                std::span<const UnitSlice> slices);

struct Published {
  std::string folder;                 // OUTPUT/checkpoints/step-N
  std::vector<std::string> warnings;  // clean-up that failed; the checkpoint itself is safe
};

// Publishes step `manifest.step` of attempt `manifest.attempt` of `run` on rank 0, after every
// rank's write_shards() has returned: writes the manifest, syncs, renames the folder to step-N,
// syncs its parent. Then removes all but the `keep` (at least 1) newest complete checkpoints, and
// the leftovers of earlier attempts and steps. Errors: kGone if the output is held by a later
// attempt or by another run, see Note [Fencing] in output_folder.h; kAlreadyExists if step-N is
// there; kDataLoss if the pieces do not tile the units; else path and reason. On an error the
// published checkpoints are as they were. A crash at any point leaves either the old state or the
// new.
common::Result<Published> publish(Disk& disk, const std::string& output, const std::string& run,
                                  const Manifest& manifest, int64_t keep);

// Renames a checkpoint that turned out to be damaged to `damaged-step-N` (a number is added if that
// is taken), so that training can publish this step again and pruning does not count it. Rank 0
// calls it before going on from an older checkpoint. Returns the new folder.
common::Result<std::string> set_aside_checkpoint(Disk& disk, const std::string& output,
                                                 int64_t step);

}  // namespace lockstep::runtime
