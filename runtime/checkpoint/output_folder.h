// The output folder of a run (LOCKSTEP_OUTPUT): who may start in it, and what a restart cuts back.
//   checkpoints/  metrics.jsonl  loss.svg  model/  logs/  finished.json (last: the run is complete)
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/result.h"

namespace lockstep::runtime {

enum class OutputMode {
  kFresh,   // the default: a finished run is refused, an unfinished one is kept and can be resumed
  kResume,  // a finished run is taken up again, too: its marker is removed
  kOverwrite,  // checkpoints, metrics, loss curve, model and marker are removed first; logs stay
};

// Prepares OUTPUT on rank 0 before the ranks meet in it: creates it, proves by writing and syncing
// a file that it is writable, applies `mode`, and removes temporary files of earlier attempts.
// kOverwrite belongs to a run's first attempt: a restart must not destroy the checkpoints.
// Errors: kAlreadyExists if it holds a finished run and mode is kFresh; else path and reason.
common::Result<void> prepare_output(Disk& disk, const std::string& output, OutputMode mode,
                                    int64_t attempt);

// The step of the finished run in OUTPUT; nothing if its run is not finished. Finished means that
// finished.json exists; it is written last, after the model. 0 if that file is not ours.
std::optional<int64_t> finished_step(const std::string& output);
common::Result<void> mark_finished(Disk& disk, const std::string& output, int64_t step);

// Cuts OUTPUT/metrics.jsonl back to the lines up to and with `step`, by an atomic rewrite; a torn
// last line goes, too. Fine if there is no such file. Call it on rank 0 when training starts at
// `step`.
common::Result<void> cut_metrics(Disk& disk, const std::string& output, int64_t step);

// Do all ranks see the same folder? Rank 0 draws a nonce, writes it, and sends it to the others,
// which look for it; when all have looked, rank 0 removes it.
std::string make_nonce();  // 32 hexadecimal digits from the system's random source
common::Result<void> write_nonce(Disk& disk, const std::string& output, const std::string& nonce);
// kConflict, with a hint, if OUTPUT as seen here does not hold the nonce.
common::Result<void> check_nonce(const std::string& output, const std::string& nonce);
common::Result<void> remove_nonce(Disk& disk, const std::string& output, const std::string& nonce);

}  // namespace lockstep::runtime
