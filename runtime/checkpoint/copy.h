// Bringing a checkpoint of another output into this one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/reader.h"

namespace lockstep::runtime {

// Copies a checkpoint into OUTPUT/checkpoints, byte by byte, on rank 0 and while no other save is
// under way. It appears by one rename, like a published one; a crash leaves a folder that
// remove_leftovers() knows. Checksums are not verified: who reads the copy does.
class CheckpointCopy {
 public:
  // Touches nothing yet. `disk` must outlive the object.
  //   attempt: of this run.
  CheckpointCopy(Disk& disk, const CheckpointReader& from, const std::string& output,
                 int64_t attempt);

  // Works for `slice`, but moves at least a buffer, and syncs what it wrote, so that no later slice
  // waits for that. Returns whether the copy stands in its place; then, and after an error, it must
  // not be called again. Errors: path and reason; the copy is then not there.
  common::Result<bool> advance(std::chrono::milliseconds slice);
  // After an error: whether it was the checkpoint to copy that could not be read.
  bool is_unreadable() const { return is_unreadable_; }

 private:
  common::Result<void> begin();
  common::Result<void> move_buffer();
  common::Result<void> publish();
  common::Error unreadable(const std::string& path);

  Disk& disk_;
  std::string from_;
  std::string parent_;    // OUTPUT/checkpoints
  std::string target_;    // there
  std::string gathered_;  // there, before the rename
  std::vector<std::string> files_;
  std::vector<char> buffer_;
  bool is_begun_ = false;
  bool is_unreadable_ = false;
  std::size_t num_done_ = 0;  // of files_
  // Of the file under way.
  std::ifstream in_;
  std::unique_ptr<DiskFile> out_;
  int64_t offset_bytes_ = 0;
};

}  // namespace lockstep::runtime
