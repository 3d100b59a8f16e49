// Several nodes as threads on loopback, with small shell programs in place of a trainer.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "operator/local/executor.h"
#include "operator/local/node_agent.h"
#include "operator/local/node_meeting.h"
#include "operator/local/node_messages.h"
#include "runtime/common/loopback_port.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

class NodesTest : public testing::Test {
 protected:
  NodesTest() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-nodes-XXXXXX").string();
    output_ = mkdtemp(pattern.data());
  }
  ~NodesTest() override { fs::remove_all(output_); }

  NodePlace place(int64_t node_rank) const {
    return {.nodes = 2,
            .node_rank = node_rank,
            .master_host = "127.0.0.1",
            .master_port = port_.number(),
            .told_by = "--nodes"};
  }
  MeetingOptions meeting(int64_t node_rank) const {
    return {.place = place(node_rank),
            .hello = {.version = this_version(),
                      .name = "demo",
                      .spec = {{"ranks", 4}},
                      .nodes = 2,
                      .node_rank = node_rank},
            .output_mode = "overwrite"};
  }
  ProcessClusterOptions processes(int64_t node_rank) const {
    return {.output = output_, .runtime_program = "unused", .place = place(node_rank)};
  }
  static api::TrainingJob job(const std::string& script) {
    api::TrainingJob job;
    job.meta.name = "demo";
    job.spec.ranks = 4;
    job.spec.command = {"/bin/sh", "-c", script};
    return job;
  }
  // Node 1, from its first word on.
  std::future<NodeReport> start_node_1(const std::string& output = "") const {
    return std::async(std::launch::async, [this, output] {
      common::Result<Joined> joined = join_nodes(meeting(1));
      EXPECT_TRUE(joined.has_value());
      if (!joined) return NodeReport{};
      EXPECT_EQ(joined->output_mode, "overwrite");
      ProcessClusterOptions options = processes(1);
      if (!output.empty()) options.output = output;
      return serve_node(std::move(joined->link), options, -1);
    });
  }
  // What begins a run of `script`, up to its pods.
  std::vector<plan::Action> first_actions(const std::string& script) const {
    api::TrainingJob planned = job(script);
    planned.meta.uid = "local-1";
    planned.meta.ns = "local";
    planned.meta.generation = 1;
    planned.spec.ranks_per_pod = 1;
    ProcessCluster cluster(processes(0));
    std::vector<plan::Action> actions;
    bool has_pods = false;
    for (int round = 0; round < 10 && !has_pods; ++round) {
      const plan::Plan next =
          plan::plan(planned, cluster.observe(planned.meta.uid),
                     {.runtime_image = "local", .avoids_nodes = false}, api::wall_clock());
      planned.status = next.status;
      for (const plan::Action& action : next.actions) {
        actions.push_back(action);
        if (std::holds_alternative<plan::CreatePod>(action)) {
          has_pods = true;
        } else {
          EXPECT_TRUE(cluster.apply({action}).has_value());
        }
      }
    }
    EXPECT_TRUE(has_pods);
    return actions;
  }
  RunReport run_node_0(const std::string& script) {
    common::Result<std::vector<NodeLink>> links = await_nodes(meeting(0));
    EXPECT_TRUE(links.has_value());
    ExecutorOptions options;
    options.processes = processes(0);
    common::Result<RunReport> report = run_job(job(script), options, std::move(links).value());
    EXPECT_TRUE(report.has_value());
    return report ? *report : RunReport{};
  }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(output_ + "/" + name).rdbuf();
    return text.str();
  }

  std::string output_;
  const common::LoopbackPort port_;
};

TEST_F(NodesTest, EveryNodeRunsItsShareOfTheRanks) {
  std::future<NodeReport> node_1 = start_node_1();
  const RunReport report =
      run_node_0("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_PORT");
  EXPECT_EQ(report.end, RunEnd::kSucceeded);
  EXPECT_EQ(report.status.ranks.succeeded, 4);
  const std::string port = std::to_string(port_.number() + 1) + "\n";
  EXPECT_EQ(text_of("logs/attempt-0/rank-0.log"), "0 4 0 2 " + port);
  EXPECT_EQ(text_of("logs/attempt-0/rank-3.log"), "3 4 1 2 " + port);
  const NodeReport followed = node_1.get();
  EXPECT_EQ(followed.end, NodeEnd::kDismissed);
  EXPECT_EQ(followed.run_end, RunEnd::kSucceeded);
}

TEST_F(NodesTest, ARankThatFailsOnAnotherNodeRestartsTheGangOnAllNodes) {
  std::future<NodeReport> node_1 = start_node_1();
  const RunReport report =
      run_node_0("test $LOCKSTEP_ATTEMPT = 1 && exit 0; test $RANK = 3 && exit 3; exec sleep 600");
  EXPECT_EQ(report.end, RunEnd::kSucceeded);
  EXPECT_EQ(report.status.attempt, 1);
  EXPECT_EQ(report.status.restarts, 1);
  ASSERT_TRUE(report.status.first_failure.has_value());
  EXPECT_EQ(report.status.first_failure->rank, 3);
  EXPECT_EQ(report.status.first_failure->node, "node-1");
  EXPECT_EQ(node_1.get().run_end, RunEnd::kSucceeded);
}

TEST_F(NodesTest, AFailedRunEndsAllNodesWithItsReason) {
  std::future<NodeReport> node_1 = start_node_1();
  api::TrainingJob failing = job("");
  common::Result<std::vector<NodeLink>> links = await_nodes(meeting(0));
  ASSERT_TRUE(links.has_value());
  failing.spec.command = {"/bin/sh", "-c", "test $RANK = 2 && exit 4; exec sleep 600"};
  failing.spec.failure_policy.max_restarts = 0;
  ExecutorOptions options;
  options.processes = processes(0);
  const auto report = run_job(failing, options, std::move(links).value());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->end, RunEnd::kFailed);
  const NodeReport followed = node_1.get();
  EXPECT_EQ(followed.run_end, RunEnd::kFailed);
  EXPECT_EQ(followed.message, report->status.message);
  EXPECT_NE(followed.message.find("rank 2 on node-1"), std::string::npos) << followed.message;
}

TEST_F(NodesTest, ALostNodeIsNamedAndEndsTheRun) {
  std::future<void> node_1 = std::async(std::launch::async, [this] {
    common::Result<Joined> joined = join_nodes(meeting(1));
    ASSERT_TRUE(joined.has_value());
    // Joined, and gone with its first order.
    while (joined->link.exchange().empty()) usleep(1000);
  });
  const RunReport report = run_node_0("exec sleep 600");
  EXPECT_EQ(report.end, RunEnd::kNodeLost);
  EXPECT_EQ(report.lost_node, "node 1 (127.0.0.1) is gone: its connection closed");
  node_1.get();
}

TEST_F(NodesTest, ANodeWhoseFirstNodeIsGoneKillsItsRanks) {
  std::future<NodeReport> node_1 = start_node_1();
  const auto pid_of = [this](int rank) {
    return static_cast<pid_t>(std::atoi(text_of("pid-" + std::to_string(rank)).c_str()));
  };
  {
    common::Result<std::vector<NodeLink>> links = await_nodes(meeting(0));
    ASSERT_TRUE(links.has_value());
    NodeLink& link = links.value().front();
    for (const plan::Action& action : first_actions(
             "cd " + output_ + " && echo $$ > new-$RANK && mv new-$RANK pid-$RANK && sleep 600")) {
      const auto* const pod = std::get_if<plan::CreatePod>(&action);
      if (pod != nullptr && pod->rank < 2) continue;  // of node 0
      if (const auto message = encode_action(action)) link.send(*message);
    }
    while (!link.lost() && (pid_of(2) == 0 || pid_of(3) == 0)) {
      link.exchange();
      usleep(1000);
    }
    ASSERT_EQ(kill(pid_of(2), 0), 0);
    ASSERT_EQ(kill(pid_of(3), 0), 0);
  }
  const NodeReport followed = node_1.get();
  EXPECT_EQ(followed.end, NodeEnd::kLostFirst);
  EXPECT_EQ(followed.run_end, RunEnd::kNodeLost);
  EXPECT_NE(followed.message.find("is gone: its connection closed"), std::string::npos)
      << followed.message;
  EXPECT_NE(kill(pid_of(2), 0), 0);
  EXPECT_NE(kill(pid_of(3), 0), 0);
}

TEST_F(NodesTest, ANodeThatCannotStartItsRanksFailsTheRunOnAllNodesWithItsReason) {
  std::ofstream(output_ + "/file") << "no folder";
  std::future<NodeReport> node_1 = start_node_1(output_ + "/file");
  common::Result<std::vector<NodeLink>> links = await_nodes(meeting(0));
  ASSERT_TRUE(links.has_value());
  ExecutorOptions options;
  options.processes = processes(0);
  const auto report = run_job(job("exec sleep 600"), options, std::move(links).value());
  const std::string reason = "cannot create " + output_ + "/file/logs: Not a directory";
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().message, "node 1 (127.0.0.1): " + reason);
  EXPECT_EQ(report.error().hint, "choose another --output");
  const NodeReport failed = node_1.get();
  EXPECT_EQ(failed.end, NodeEnd::kFailed);
  EXPECT_EQ(failed.run_end, RunEnd::kFailed);
  EXPECT_EQ(failed.message, reason);
  EXPECT_EQ(failed.hint, "choose another --output");
}

TEST_F(NodesTest, AFarewellCarriesTheHint) {
  const NodeFarewell told{RunEnd::kFailed, "why", "what to do"};
  const std::optional<NodeFarewell> heard = decode_farewell(encode(told));
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->end, RunEnd::kFailed);
  EXPECT_EQ(heard->message, "why");
  EXPECT_EQ(heard->hint, "what to do");
}

}  // namespace
}  // namespace lockstep::local
