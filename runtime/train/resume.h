// Where training starts: at a checkpoint, or at initial weights.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/common/exit_code.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// Why a run like `s` must not go on from `manifest`: another model, batch, order or kind of data,
// or optimizer. Nothing if it may. Rank count, strategy, schedule and the optimizer's rates may
// differ.
// `folder` is named in the error.
std::optional<common::Error> find_conflict(const RankState& s, const Manifest& manifest,
                                           const std::string& folder);

// How a run ends that cannot go on from a checkpoint because of `error`.
common::ExitCode exit_code_of_checkpoint(const common::Error& error);

// Fills weights and moments from the checkpoint in `folder`; the step at hand and what is known
// about it stay. Returns why the checkpoint is damaged or gone, on any rank; nothing if it is not.
// Every rank must call it. Throws RunError and PeerLostError if it cannot be read for now.
std::optional<common::Error> load_state(RankState& s, const std::string& folder);

// Fills s.parallelism's weights, each rank its own, as they are at first, and sets the moments to
// zero. Every rank calls it.
using FillFirstWeights = std::function<void()>;

// Fills weights and moments of s.parallelism->shards() from the newest sound checkpoint of the
// output; if there is none or `may_resume` is false, from the checkpoint that the configuration
// names, or by `fill_first_weights`, which is let go of before a checkpoint is loaded. Sets s.step
// and what belongs to it; from a named checkpoint the patience of early stopping begins anew, or a
// run from one that had stopped would not train. Logs which settings are others than then. Damaged
// newer checkpoints are logged and set aside. Every rank must call it. Throws RunError:
// kCheckpointDamaged if there are checkpoints and none is sound, or the named one is not;
// kInputNotFound if there is none of that name; kInvalidConfig if the newest is another run's,
// kInvalidData if it has an unknown format; kInputNotFound or kInternal, with the system's words,
// if it cannot be read for now. No checkpoint is touched then.
void resume_or_initialize(RankState& s, Disk& disk, bool may_resume,
                          FillFirstWeights fill_first_weights);

}  // namespace lockstep::runtime
