#include "operator/local/node_agent.h"

#include <optional>
#include <set>
#include <utility>

#include "operator/local/node_group.h"
#include "operator/local/node_messages.h"
#include "operator/local/signal_wait.h"

namespace lockstep::local {

using common::Result;
using nlohmann::json;

namespace {

constexpr std::chrono::milliseconds kAgentTick{50};
constexpr const char* kGoOn =
    "the same commands on all nodes go on from the last checkpoint; its log says why it ended";

class Agent {
 public:
  Agent(NodeLink link, const ProcessClusterOptions& options, int signal_fd)
      : link_(std::move(link)), cluster_(options), signal_fd_(signal_fd) {}

  NodeReport serve() {
    while (true) {
      if (wait_for_signal(signal_fd_, kAgentTick)) {
        if (has_asked_to_stop_)
          return {NodeEnd::kKilled, RunEnd::kKilled, "", ""};  // the ranks go with cluster_
        has_asked_to_stop_ = true;
        link_.send({{kStop, true}});
      }
      for (const json& message : link_.exchange()) {
        const std::optional<NodeReport> end = obey(message);
        if (end) return *end;
      }
      if (link_.lost()) {
        if (failure_) return *failure_;
        return {NodeEnd::kLostFirst, RunEnd::kNodeLost,
                "node 0 (" + link_.peer() + ") is gone: " + *link_.lost(), kGoOn};
      }
      tell_ends();
    }
  }

 private:
  std::optional<NodeReport> obey(const json& message) {
    try {
      if (const auto farewell = decode_farewell(message)) {
        if (failure_) return failure_;
        return NodeReport{NodeEnd::kDismissed, farewell->end, farewell->message, farewell->hint};
      }
      if (failure_) return std::nullopt;
      if (message.contains(kKillAll)) cluster_.kill_all();
      if (message.contains(kAskRank)) answer(message[kAskRank]);
      const std::optional<plan::Action> action = decode_action(message);
      if (!action) return std::nullopt;
      if (const auto* const pod = std::get_if<plan::CreatePod>(&*action)) known_.insert(pod->name);
      const Result<void> applied = cluster_.apply({with_our_uid(*action)});
      if (!applied) fail(applied.error());
      return std::nullopt;
    } catch (const json::exception&) {
      link_.distrust();
      return std::nullopt;
    }
  }

  // Tells node 0 and ends the ranks here; node 0 dismisses us as all others.
  void fail(const common::Error& error) {
    link_.send({{kCannot, {{"message", error.message}, {"hint", error.hint}}}});
    failure_ = NodeReport{NodeEnd::kFailed, RunEnd::kFailed, error.message, error.hint};
    cluster_.kill_all();
  }

  // Node 0 names a process; what it is called here by is ours to know.
  plan::Action with_our_uid(plan::Action action) {
    auto* const remove = std::get_if<plan::DeletePod>(&action);
    if (remove == nullptr) return action;
    for (const plan::PodView& pod : cluster_.observe("").pods) {
      if (pod.name == remove->name) remove->uid = pod.uid;
    }
    return action;
  }

  void answer(const json& asked) {
    const std::optional<int> port = cluster_.metrics_port(asked.at("attempt"), asked.at("rank"));
    json told = {{"attempt", asked.at("attempt")}, {"rank", asked.at("rank")}, {"progress", ""}};
    if (port) {
      const Result<common::JobProgress> progress = ask_rank_here(*port);
      if (progress) told["progress"] = common::encode(*progress);
    }
    link_.send({{kAnswer, told}});
  }

  // Every end once, and that a deleted process is gone.
  void tell_ends() {
    std::set<std::string> seen;
    for (const plan::PodView& pod : cluster_.observe("").pods) {
      seen.insert(pod.name);
      if (pod.exit && told_.insert(pod.name).second) {
        link_.send(encode(RankNews{.pod = pod.name, .exit = pod.exit}));
      }
    }
    for (const std::string& name : known_) {
      if (seen.contains(name)) continue;
      link_.send(encode(RankNews{.pod = name, .exit = {}}));
      told_.erase(name);
    }
    known_ = std::move(seen);
  }

  NodeLink link_;
  ProcessCluster cluster_;
  const int signal_fd_;
  bool has_asked_to_stop_ = false;
  std::optional<NodeReport> failure_;  // a rank could not be started here
  std::set<std::string> known_;        // processes that node 0 takes for there
  std::set<std::string> told_;         // of those, which have ended
};

}  // namespace

NodeReport serve_node(NodeLink link, const ProcessClusterOptions& options, int signal_fd) {
  return Agent(std::move(link), options, signal_fd).serve();
}

}  // namespace lockstep::local
