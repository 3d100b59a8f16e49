// Which of several machines this one is: from flags, or from the environment of the program that
// started us on all of them. Pure.
//
// Note [Nodes]
// A node is one `lockstep run`; each has the same number of the job's ranks, in the order of the
// nodes. Node 0 listens at the master's port, plans for all nodes and tells the others what to
// start and to end, so that every restart is decided once. The ranks themselves meet at the port
// after it. A launcher that starts several of us on one machine has several nodes there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/common/result.h"

namespace lockstep::local {

// --nodes, --node-rank and --master, as given.
struct NodeFlags {
  std::optional<int64_t> nodes{};
  std::optional<int64_t> node_rank{};
  std::string master{};  // HOST:PORT; empty = not given
};

struct NodePlace {
  int64_t nodes = 1;
  int64_t node_rank = 0;
  int64_t local_index = 0;    // among the nodes of this machine
  int64_t local_count = 1;    // nodes of this machine
  std::string master_host{};  // empty with one node
  int master_port = 0;        // of node 0's own conversation with the others; 0 with one node
  std::string told_by{};      // "--nodes", "torchrun", "Slurm", "Open MPI"; empty with one node

  bool is_first() const { return node_rank == 0; }
  // Where rank 0 listens for the other ranks.
  int rendezvous_port() const { return master_port + 1; }
  int64_t ranks_here(int64_t world_size) const { return world_size / nodes; }
  int64_t node_of(int64_t rank, int64_t world_size) const { return rank / ranks_here(world_size); }
  // As torchrun counts: over all of this machine's ranks, to take a device each.
  int64_t local_rank(int64_t rank, int64_t world_size) const {
    const int64_t here = ranks_here(world_size);
    return local_index * here + rank % here;
  }
  int64_t local_world_size(int64_t world_size) const {
    return local_count * ranks_here(world_size);
  }
};

using EnvLookup = std::function<std::optional<std::string>(const std::string&)>;

// Flags win over the environment. Of the environment counts what torchrun (TORCHELASTIC_RUN_ID,
// WORLD_SIZE, RANK, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), a job step of Slurm
// (SLURM_STEP_NUM_TASKS, SLURM_PROCID, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE, SLURM_NODEID,
// SLURM_STEP_NODELIST) or Open MPI (OMPI_COMM_WORLD_SIZE, _RANK, _LOCAL_RANK, _LOCAL_SIZE) set;
// MASTER_ADDR and MASTER_PORT stand for --master with the latter two. One node without either.
// Sources: torch/distributed/elastic/agent/server/local_elastic_agent.py; srun(1), output
// environment variables; mpirun(1), environmental variables.
// Errors: kInvalidArgument, naming the flag or variable, what was found and what to do.
common::Result<NodePlace> choose_place(const NodeFlags& flags, const EnvLookup& env);

// Whether every node can have the same number of `ranks`. Error: kInvalidArgument.
common::Result<void> check_division(const NodePlace& place, int64_t ranks);

// "n[07-09,12],m1" -> "n07": the first host of a list as Slurm writes it.
std::string first_host(const std::string& node_list);
// "2(x3),1" -> 2 for nodes 0 to 2, 1 for node 3; nothing if the text has no such node.
std::optional<int64_t> tasks_on_node(const std::string& tasks_per_node, int64_t node);

}  // namespace lockstep::local
