// Inputs of a job that are on the Hugging Face hub become files of this machine, before anything
// else reads them.
#pragma once

#include "runtime/common/exit_code.h"
#include "runtime/common/result.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

// Note [Inputs on the hub]
// Rank 0 finds out which commits the revisions are, and tells the others: the commits of the
// checkpoint that the run goes on from, though a branch has moved since; else what the hub says
// now. Then the first rank of every pod fetches what the job needs into its cache, where the pod's
// other ranks find it, and every pod that shares the cache. From here on the job's configuration
// names files of this machine; its text, which checkpoints keep, has the references as they are
// written, and s.hub_commits.
//
// Does nothing for a job without references. Every rank must call it; `board` shows the phase
// "fetching", whose age grows only while no rank gets on. Throws RunError as
// exit_code_of_hub() says, on the rank that failed, PeerLostError on the others; kInvalidConfig for
// a model that the job's other fields exclude.
//   may_resume: the run goes on from the output's newest checkpoint, if there is one.
void fetch_inputs(RankState& s, StatusBoard& board, bool may_resume);

// Of an error of runtime/hub: whether it may have passed when the job starts again.
common::ExitCode exit_code_of_hub(const common::Error& error);

}  // namespace lockstep::runtime
