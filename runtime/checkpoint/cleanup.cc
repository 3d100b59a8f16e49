#include "runtime/checkpoint/cleanup.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "runtime/checkpoint/layout.h"
#include "runtime/checkpoint/reader.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::ErrorCode;
using common::Result;

constexpr std::string_view kPrunedPrefix = ".pruned-";

bool is_leftover(const std::string& name, int64_t attempt, int64_t step) {
  if (name.starts_with(kPrunedPrefix)) return true;
  const std::optional<AttemptStep> save = parse_attempt_name(name);
  if (!save) return false;
  return save->attempt < attempt || (save->attempt == attempt && save->step < step);
}

// The best checkpoint that one with `manifest` needs to stay; 0 if there is none.
int64_t best_step_named_by(const Manifest& manifest) {
  return manifest.evaluations.keeps_best ? manifest.evaluations.best_step : 0;
}

// The same of a checkpoint on disk. One that is damaged or gone cannot be gone on from; what one
// names that cannot be read for now is unknown, and an error.
Result<int64_t> best_step_named_by(const FoundCheckpoint& checkpoint) {
  const Result<CheckpointReader> reader = CheckpointReader::open(checkpoint.folder);
  if (reader) return best_step_named_by(reader->manifest());
  const ErrorCode code = reader.error().code;
  if (code == ErrorCode::kDataLoss || code == ErrorCode::kNotFound) return int64_t{0};
  return reader.error();
}

void note(const Result<void>& result, std::vector<std::string>& failures) {
  if (!result) failures.push_back(result.error().message);
}

void prune(Disk& disk, const std::string& parent, const FoundCheckpoint& old,
           std::vector<std::string>& failures) {
  const std::string doomed = parent + "/" + std::string(kPrunedPrefix) + step_name(old.step);
  note(disk.remove_tree(doomed), failures);
  if (const Result<void> renamed = disk.rename(old.folder, doomed); !renamed) {
    return note(renamed, failures);
  }
  // Without this the removal could reach the disk before the rename does.
  if (const Result<void> synced = disk.sync_folder(parent); !synced) {
    return note(synced, failures);
  }
  note(disk.remove_tree(doomed), failures);
}

}  // namespace

std::vector<std::string> prune_checkpoints(Disk& disk, const std::string& output,
                                           const Manifest& newest, int64_t keep) {
  const Result<std::vector<FoundCheckpoint>> found = find_checkpoints(output);
  if (!found) return {found.error().message};
  int64_t num_kept = 1;  // `newest` itself
  std::set<int64_t> best_steps = {best_step_named_by(newest)};
  std::vector<FoundCheckpoint> old;
  for (const FoundCheckpoint& checkpoint : *found) {  // newest first
    if (checkpoint.step == newest.step) continue;
    if (checkpoint.step < newest.step && num_kept++ >= keep) {
      old.push_back(checkpoint);
      continue;
    }
    const Result<int64_t> best_step = best_step_named_by(checkpoint);
    if (!best_step) return {best_step.error().message};
    best_steps.insert(*best_step);
  }
  std::vector<std::string> failures;
  for (const FoundCheckpoint& checkpoint : old) {
    if (best_steps.contains(checkpoint.step)) continue;
    prune(disk, checkpoints_folder(output), checkpoint, failures);
  }
  return failures;
}

std::vector<std::string> remove_leftovers(Disk& disk, const std::string& output, int64_t attempt,
                                          int64_t step) {
  const std::string parent = checkpoints_folder(output);
  std::vector<std::string> leftovers;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error); entry != fs::directory_iterator();
       entry.increment(error)) {
    if (is_leftover(entry->path().filename().string(), attempt, step)) {
      leftovers.push_back(entry->path().string());
    }
  }
  std::vector<std::string> failures;
  if (error && error != std::errc::no_such_file_or_directory) {
    failures.push_back("cannot list " + parent + ": " + error.message());
  }
  for (const std::string& leftover : leftovers) note(disk.remove_tree(leftover), failures);
  return failures;
}

}  // namespace lockstep::runtime
