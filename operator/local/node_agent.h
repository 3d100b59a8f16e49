// A node that is not the first: does what node 0 says, and tells it what became of the ranks here.
#pragma once

#include <string>

#include "operator/local/node_link.h"
#include "operator/local/process_cluster.h"
#include "operator/local/run_end.h"
#include "runtime/common/result.h"

namespace lockstep::local {

enum class NodeEnd {
  kDismissed,  // the run ended as node 0 says
  kLostFirst,  // node 0 is gone
  kKilled,     // a second Ctrl-C here
  kFailed,     // a rank could not be started here
};

struct NodeReport {
  NodeEnd end = NodeEnd::kLostFirst;
  RunEnd run_end = RunEnd::kNodeLost;  // of the whole run, if dismissed
  std::string message;                 // for people; empty after success
  std::string hint;
};

// Serves node 0 until the run ends, and leaves no process behind. Blocks. The first Ctrl-C here
// asks node 0 to stop the whole run behind a checkpoint; the second one kills the ranks of this
// node.
//   signal_fd: as ExecutorOptions::signal_fd.
NodeReport serve_node(NodeLink link, const ProcessClusterOptions& options, int signal_fd);

}  // namespace lockstep::local
