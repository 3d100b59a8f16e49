// Measures what a checkpoint asks of a folder: large files written and synced, read back, and small
// files replaced durably. Checks every byte.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/result.h"

namespace lockstep::runtime {

struct DiskBenchOptions {
  std::string folder;     // exists
  int64_t num_bytes = 0;  // of the large file, a multiple of kDiskBlockBytes
  int64_t replacements = 20;
};

inline constexpr int64_t kDiskBlockBytes = int64_t{4} << 20;  // written and read at once

struct DiskFigures {
  int64_t num_bytes = 0;
  double write_seconds = 0;    // until they are on stable storage
  double read_seconds = 0;     // once the page cache was asked to drop them
  double replace_seconds = 0;  // of one small file: written, synced, renamed, its folder synced
  int64_t num_wrong = 0;       // bytes that did not come back
};

// Works in a new folder below `folder`, which it removes in every case. Blocks. Errors of the disk;
// kUnavailable if less than twice `num_bytes` are free, before anything is written.
common::Result<DiskFigures> bench_disk(Disk& disk, const DiskBenchOptions& options);

std::string render_disk(const DiskFigures& figures);
nlohmann::json disk_json(const DiskFigures& figures);

}  // namespace lockstep::runtime
