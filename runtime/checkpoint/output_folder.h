// The output folder of a run (LOCKSTEP_OUTPUT): who may start in it, and what a restart cuts back.
//   checkpoints/  metrics.jsonl  loss.svg  model/  logs/  tokens/
//   run.json (whose run it is)  finished.json (last: the run is complete)
//
// Note [Whose output it is]
// A run has an identity, the same in all its attempts. The first attempt that prepares a folder
// writes it into run.json after everything else (later ones find it there, and raise its attempt),
// and mark_finished() into finished.json. An attempt goes on from what it finds, or takes a
// finished output for its success, only if run.json names its own run; otherwise no attempt of this
// run has prepared the folder, and it does what a first attempt does. So a restart never passes an
// older run's results off as its own, wherever attempt 0 ended.
//
// Note [Fencing]
// Ranks of a lost node may live on, reach the output, and go on training while a later attempt does
// the same. run.json also names the newest attempt, and is its fence: from the moment it stands
// there, attempts of its run before it can neither prepare the folder nor publish() into it, and
// other runs cannot publish(); they may take the folder over, which fences off this one. A later
// attempt of a run raises it before it changes anything else; then it removes what earlier attempts
// were saving; and only then it looks for the newest checkpoint. So one that passed its fence a
// moment before either publishes in time to be found and gone on from, or has nothing left to
// rename.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/result.h"
#include "runtime/common/worker_env.h"

namespace lockstep::runtime {

// OUTPUT/tokens: the data as token files, for every run that reads the same, and the references of
// dpo, which are their run's.
std::string tokens_folder(const std::string& output);
// The name in it of the reference for data called `data` ("train", "validation").
std::string reference_file(std::string_view data);

struct Preparation {
  // kAuto: a finished run is refused, an unfinished one is kept and can be resumed.
  // kResume: a finished run is taken up again, too: finished.json is removed.
  // kOverwrite: all but logs/, token files and strangers' files is removed first. Only for an
  // attempt that finds another run here: a restart must not destroy the checkpoints of its own.
  common::OutputMode mode = common::OutputMode::kAuto;
  std::string run;  // identity
  int64_t attempt = 0;
};

// Prepares OUTPUT on rank 0 before the ranks meet in it: creates it, proves by writing and syncing
// a file that it is writable, applies `mode`, removes temporary files of earlier attempts and of
// other runs, and writes run.json.
// Errors: kGone, with nothing touched, if a later attempt of the run has prepared it;
// kAlreadyExists if it holds a finished run and mode is kAuto, or a model or metrics that no run
// has left and mode is not kOverwrite; else path and reason.
common::Result<void> prepare_output(Disk& disk, const std::string& output,
                                    const Preparation& preparation);

// The identity of the run that OUTPUT was last prepared for; empty if there is none.
common::Result<std::string> prepared_run(const std::string& output);

// kGone if OUTPUT is not, or no more, prepared for this run, or is for a later attempt of it: see
// Note [Fencing]. kInternal if that cannot be read.
common::Result<void> check_fence(const std::string& output, const std::string& run,
                                 int64_t attempt);

struct FinishedRun {
  int64_t step = 0;           // 0 if finished.json is not ours
  std::string run;            // identity; empty if finished.json is not ours
  int64_t exported_step = 0;  // whose weights are in model/; 0 if nothing was exported
  bool operator==(const FinishedRun&) const = default;
};
// The finished run in OUTPUT; nothing if its run is not finished. Finished means that finished.json
// exists; it is written last, after the model.
common::Result<std::optional<FinishedRun>> finished_run(const std::string& output);
common::Result<void> mark_finished(Disk& disk, const std::string& output,
                                   const FinishedRun& finished);

// What training that starts anew at `step` keeps of the metrics.
struct MetricsCut {
  int64_t step = 0;
  bool is_evaluated = true;  // false: `step` is going to be evaluated again
};
// Cuts OUTPUT/metrics.jsonl back to these lines, by an atomic rewrite; a torn last line goes, too.
// Fine if there is no such file. Call it on rank 0 when training starts.
common::Result<void> cut_metrics(Disk& disk, const std::string& output, const MetricsCut& cut);

// Do all ranks see the same folder? Rank 0 draws a nonce, writes it, and sends it to the others,
// which look for it; when all have looked, rank 0 removes it.
std::string make_nonce();  // 32 hexadecimal digits from the system's random source
common::Result<void> write_nonce(Disk& disk, const std::string& output, const std::string& nonce);
// kConflict, with a hint, if OUTPUT as seen here does not hold the nonce.
common::Result<void> check_nonce(const std::string& output, const std::string& nonce);
common::Result<void> remove_nonce(Disk& disk, const std::string& output, const std::string& nonce);

}  // namespace lockstep::runtime
