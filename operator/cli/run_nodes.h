// The part of `lockstep run` that has to do with several machines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/manifest.h"
#include "operator/local/node_link.h"
#include "operator/local/node_place.h"
#include "operator/local/process_cluster.h"
#include "operator/local/run_end.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

// --nodes, --node-rank and --master.
void add_node_flags(CLI::App& verb, local::NodeFlags& flags);

// Which node this is, for the ranks of `job`; prints what is wrong. Nothing if something is.
std::optional<local::NodePlace> find_place(const local::NodeFlags& flags,
                                           const api::TrainingJob& job);

// Tells standard error which ranks this node would start, and where they would meet; nothing with
// one node.
void print_place(const local::NodePlace& place, int64_t world_size);

// What the nodes of a run are told of it before it begins.
struct NodeRun {
  const api::Manifest& manifest;
  const std::vector<std::string>& inputs;  // --input
  const local::ProcessClusterOptions& processes;
  int signal_fd = -1;
};

// Node 0: waits for the others and prints who came. On failure prints why and leaves the exit
// status in `status`.
std::optional<std::vector<local::NodeLink>> gather_nodes(const NodeRun& run, int& status);
// Any other node: the whole run, as node 0 says. Returns the exit status.
int follow_first_node(const NodeRun& run);

int exit_status_of(local::RunEnd end);

}  // namespace lockstep::cli
