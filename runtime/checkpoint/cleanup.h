// What goes away after a checkpoint is published: old checkpoints, and leftovers of saves that
// died.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/manifest.h"

namespace lockstep::runtime {

// Removes checkpoints older than that of `newest`, just published, but not the `keep - 1` newest of
// them, and not the best ones that those which stay name (EvaluationHistory::keeps_best): a run
// that has to fall back to an older checkpoint finds its best one, too. Each is renamed first, so
// that one that is half removed is never found. Nothing is removed if one that stays cannot be
// read, except for damage. Returns what failed.
std::vector<std::string> prune_checkpoints(Disk& disk, const std::string& output,
                                           const Manifest& newest, int64_t keep);

// Removes the folders of saves of attempts before `attempt`, and of `attempt` before `step`; and
// what pruning left half removed. A later attempt's folders stay: if there are any, this one is
// outdated (prepare_output() has removed those of other runs). Returns what failed.
std::vector<std::string> remove_leftovers(Disk& disk, const std::string& output, int64_t attempt,
                                          int64_t step);

}  // namespace lockstep::runtime
