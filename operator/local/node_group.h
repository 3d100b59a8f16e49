// Stands for the cluster of a run on any number of nodes, one included: this node's processes, and
// what the other nodes tell of theirs. The executor on node 0 plans over all of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/local/node_link.h"
#include "operator/local/node_messages.h"
#include "operator/local/process_cluster.h"
#include "operator/plan/plan.h"
#include "runtime/common/progress.h"
#include "runtime/common/result.h"

namespace lockstep::local {

// One object, one thread.
class NodeGroup {
 public:
  //   others: links to nodes 1, 2, ... in order; empty with one node.
  NodeGroup(ProcessClusterOptions options, std::vector<NodeLink> others);
  // Kills what still runs here, and tells the other nodes to.
  ~NodeGroup();
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;

  common::Result<void> apply(const std::vector<plan::Action>& actions);
  // Hears the other nodes, then shows the pods of all as ProcessCluster::observe() does.
  plan::Observation observe(const std::string& owner_uid);

  // The node that is lost, by name, and why; it stays lost. Nothing while there is none.
  const std::optional<std::string>& lost_node() const { return lost_node_; }
  // Why another node cannot start a rank, with its name; it stays so. Nothing while all can.
  const std::optional<common::Error>& failure() const { return failure_; }
  // A node is overdue: what its peers ended with may be its fault, and is not to be judged yet.
  bool is_doubtful() const;
  // Whether another node asked to stop since the last call.
  bool take_stop_wish();

  bool has_live_processes() const;
  void kill_all();
  // Tells the other nodes how the run ended, and waits a little until they have left.
  void dismiss(const NodeFarewell& farewell);

  // How far a rank is. Asks a rank of this node at once; of a rank of another node returns what
  // came since the last call, and asks again. Nothing: it does not run, or no answer came yet.
  std::optional<common::Result<common::JobProgress>> progress_of(int64_t attempt, int64_t rank);
  std::string log_file(int64_t attempt, int64_t rank) const;

 private:
  struct RemotePod {
    plan::PodView view;
    size_t link = 0;  // into others_
    bool ended() const { return view.exit.has_value(); }
  };

  void create_remote(const plan::CreatePod& action, size_t link, const nlohmann::json& message);
  void delete_remote(const plan::DeletePod& action, RemotePod& pod, const nlohmann::json& message);
  void hear(size_t link, const nlohmann::json& message);
  void hear_rank(const RankNews& news);
  std::string describe(size_t link) const;  // "node 1 (10.0.0.2)"
  void send_to_all(const nlohmann::json& message);

  const NodePlace place_;
  ProcessCluster own_;
  std::vector<NodeLink> others_;
  std::map<std::string, RemotePod> remote_;  // by pod name
  // By attempt and rank: what another node was asked, and what it told since; empty text: the rank
  // did not answer.
  std::set<std::pair<int64_t, int64_t>> asked_;
  std::map<std::pair<int64_t, int64_t>, std::string> answers_;
  std::optional<std::string> lost_node_;
  std::optional<common::Error> failure_;
  bool stop_wish_ = false;
  int next_uid_ = 1;
};

// Asks a rank of this machine, for at most a moment.
common::Result<common::JobProgress> ask_rank_here(int metrics_port);

}  // namespace lockstep::local
