// Reading a checkpoint on any number of ranks: slices by element range, each block verified.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/common/result.h"

namespace lockstep::runtime {

struct FoundCheckpoint {
  int64_t step = 0;
  std::string folder;
};

// The published checkpoints of OUTPUT, newest first; none if there is no such folder. Nothing is
// opened: CheckpointReader::open() tells whether one is sound. Errors: what keeps a folder from
// being listed; a checkpoint that cannot be looked at is never taken for none.
common::Result<std::vector<FoundCheckpoint>> find_checkpoints(const std::string& output);

class CheckpointReader {
 public:
  // Reads the manifest and checks that every shard file is as long as it says.
  // Errors: kDataLoss naming the file (try the next older checkpoint, saying so); kInvalidArgument
  // for a newer format; kNotFound if the folder went away; others, with the system's words, if a
  // file cannot be read for now: that is no damage.
  static common::Result<CheckpointReader> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  // Fills `values` with elements [begin_elem, begin_elem + values.size()) of a unit, from whatever
  // pieces hold them, verifying the checksum of each block that it touches. The range must lie in
  // the unit. kDataLoss names file and offset; other errors as in open(). `values` is then
  // unspecified.
  common::Result<void> read_slice(int64_t unit, PieceKind kind, int64_t begin_elem,
                                  std::span<float> values) const;

 private:
  CheckpointReader(std::string folder, Manifest manifest);

  std::string folder_;
  Manifest manifest_;
};

struct SkippedCheckpoint {
  FoundCheckpoint checkpoint;
  common::Error reason;
};

// The newest checkpoint older than `before_step` that opens, and those that were skipped as
// damaged.
struct OpenedCheckpoint {
  CheckpointReader reader;
  std::vector<SkippedCheckpoint> skipped;
};
// Errors: kNotFound if OUTPUT holds no checkpoint before `before_step`; kDataLoss, listing the
// reasons, if it holds some and all are damaged; what open() returns besides kDataLoss.
common::Result<OpenedCheckpoint> open_newest(const std::string& output,
                                             int64_t before_step = INT64_MAX);

}  // namespace lockstep::runtime
