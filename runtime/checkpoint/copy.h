// Bringing a checkpoint of another output into this one.
#pragma once

#include <string>

#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/reader.h"

namespace lockstep::runtime {

// Copies the checkpoint of `from` into OUTPUT/checkpoints, byte by byte, on rank 0 and while no
// other save is under way. It appears by one rename, like a published one; a crash leaves a folder
// that remove_leftovers() knows. Checksums are not verified: who reads the copy does. Fine if
// OUTPUT has this step already.
//   attempt: of this run. Errors: path and reason.
common::Result<void> copy_checkpoint(Disk& disk, const CheckpointReader& from,
                                     const std::string& output, int64_t attempt);

}  // namespace lockstep::runtime
