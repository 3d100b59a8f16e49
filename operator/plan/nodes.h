// Nodes on which ranks fail again and again: later attempts keep away from them.
//
// Note [Avoided, not forbidden]
// The pods of the next attempt prefer any other node by the strongest weight there is. They do not
// require one: only the scheduler knows whether there is another node with what a rank needs, and a
// job that waits for ever helps nobody. Where there is a choice, the effect is the same.
#pragma once

#include <string>
#include <vector>

#include "operator/api/training_job.h"

namespace lockstep::plan {

// Failures on one node after which later attempts avoid it.
inline constexpr int64_t kAvoidAfter = 2;

// Counts a failure on `node`. True if the node is avoided from now on. Of more nodes than the
// status holds, those with the fewest failures are forgotten.
bool count_node_failure(api::TrainingJobStatus& status, const std::string& node);

// Names of the nodes to avoid, worst first.
std::vector<std::string> avoided_nodes(const api::TrainingJobStatus& status);

}  // namespace lockstep::plan
