// Task distill's part in a run: its teacher, and the micro-batches that both models see.
#pragma once

#include <functional>
#include <string>

#include "runtime/common/result.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// Under task distill builds s.teacher, fills it with the weights of distill.teacher, each rank its
// own part, and adds them to the fingerprint of the run's weights; else does nothing. Every rank
// must call it, once the strategy is chosen.
// Throws RunError: kInvalidData for weights that are not of its config.json, or of other files than
// rank 0 sees; kInvalidConfig for other tokens; kInputNotFound, kInternal. PeerLostError if it is
// wrong elsewhere.
void open_teacher(RankState& s);

// Calls `run` with io.distillation as s.teacher tells it; without a teacher just calls it. Every
// rank must call it. Blocks and throws as Teacher::read() and `run`.
void with_teacher(RankState& s, MicroBatchIo& io, const std::function<void()>& run);

// Whether two tokenizer.json have the same tokens under the same ids.
//   ours, theirs: paths of folders, or of the files.
// Errors: those of reading them; kInvalidArgument if they have not.
common::Result<void> check_same_tokens(const std::string& ours, const std::string& theirs);

}  // namespace lockstep::runtime
