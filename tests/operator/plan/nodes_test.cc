#include "operator/plan/nodes.h"

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

TEST(NodesTest, SecondFailureOnANodeMakesItAvoided) {
  api::TrainingJobStatus status;
  EXPECT_FALSE(count_node_failure(status, "a"));
  EXPECT_FALSE(count_node_failure(status, "b"));
  EXPECT_TRUE(avoided_nodes(status).empty());
  EXPECT_TRUE(count_node_failure(status, "b"));
  EXPECT_FALSE(count_node_failure(status, "b"));  // told once
  EXPECT_FALSE(count_node_failure(status, ""));
  EXPECT_EQ(avoided_nodes(status), std::vector<std::string>{"b"});
  EXPECT_EQ(status.node_failures.front(), (api::NodeFailures{"b", 3}));
}

TEST(NodesTest, ListIsBoundedAndKeepsTheWorst) {
  api::TrainingJobStatus status;
  count_node_failure(status, "worst");
  count_node_failure(status, "worst");
  for (int i = 0; i < 100; ++i)
    count_node_failure(status, std::string("n").append(std::to_string(i)));
  EXPECT_EQ(status.node_failures.size(), 16U);
  EXPECT_EQ(status.node_failures.front().name, "worst");
}

// Rank 1 fails on its node; the next attempt has nodes again.
void fail_on_node(ModelCluster& cluster, int64_t exit_code) {
  cluster.end(1, exit_code);
  cluster.settle();
  cluster.now += seconds(60);
  cluster.settle();
  cluster.run_all();
  cluster.settle();
}

TEST(NodesTest, NextAttemptsPodsPreferOtherNodes) {
  ModelCluster cluster = running_cluster(training_job(2));
  fail_on_node(cluster, 70);
  EXPECT_TRUE(avoided_nodes(cluster.job.status).empty());
  cluster.end(1, 70);
  const Plan restart = cluster.decide();
  ASSERT_EQ(restart.events.size(), 2U);
  EXPECT_EQ(restart.events[0].reason, "NodeAvoided");
  cluster.settle();
  cluster.now += seconds(60);
  const Plan next = cluster.decide();
  int num_pods = 0;
  for (const Action& action : next.actions) {
    const auto* pod = std::get_if<CreatePod>(&action);
    if (pod == nullptr) continue;
    ++num_pods;
    const nlohmann::json& terms = pod->body["spec"]["affinity"]["nodeAffinity"]
                                           ["preferredDuringSchedulingIgnoredDuringExecution"];
    ASSERT_EQ(terms.size(), 1U);
    EXPECT_EQ(terms[0]["preference"]["matchFields"],
              nlohmann::json::parse(
                  R"([{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}])"));
  }
  EXPECT_EQ(num_pods, 2);
}

TEST(NodesTest, FailuresThatAreNoNodesFaultAreNotCounted) {
  for (const int64_t code : {66, 77, 83, 85}) {
    ModelCluster cluster = running_cluster(training_job(2));
    cluster.end(1, code);
    cluster.end(0, 83);
    cluster.now += seconds(20);
    EXPECT_TRUE(cluster.decide().status.node_failures.empty()) << code;
  }
}

TEST(NodesTest, NodeThatRefusesItsPodsIsCountedThoughItCostsNothing) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.pod(1).phase = PodPhase::kFailed;
  cluster.pod(1).reason = "UnexpectedAdmissionError";
  const Plan next = cluster.decide();
  EXPECT_EQ(next.status.restarts, 0);
  EXPECT_EQ(next.status.node_failures, (std::vector<api::NodeFailures>{{"node-1", 1}}));
}

TEST(NodesTest, NothingIsCountedWhereThereIsOnlyOneNode) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.settings.avoids_nodes = false;
  cluster.end(1, 70);
  EXPECT_TRUE(cluster.decide().status.node_failures.empty());
}

TEST(NodesTest, PodOnANodeThatIsGoneIsLostAndDeletedByForce) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.pod(1).node_state = NodeState::kGone;
  const Plan lost = cluster.decide();
  EXPECT_TRUE(lost.actions.empty());
  EXPECT_EQ(lost.status.attempt, 1);
  EXPECT_EQ(lost.status.restarts, 0);
  EXPECT_EQ(lost.status.first_failure->reason, "NodeLost");
  cluster.apply(lost);
  std::vector<std::pair<std::string, int64_t>> deleted;
  for (const Action& action : cluster.decide().actions) {
    if (const auto* pod = std::get_if<DeletePod>(&action)) {
      deleted.emplace_back(pod->name, pod->grace_seconds);
    }
  }
  EXPECT_EQ(deleted,
            (std::vector<std::pair<std::string, int64_t>>{{"demo-0-0", 1}, {"demo-0-1", 0}}));
}

TEST(NodesTest, NodeThatOnlyDoesNotAnswerIsLeftAlone) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.pod(1).node_state = NodeState::kUnready;
  const Plan next = cluster.decide();
  EXPECT_TRUE(next.actions.empty());
  EXPECT_EQ(next.status.attempt, 0);
}

TEST(NodesTest, NodeThatIsNotReadyIsLostOnceItsRanksAreSilentToo) {
  const Pulse answers = {.rank = 0, .age = std::chrono::seconds(1)};
  const Pulse silent_0 = {.rank = 0};
  const Pulse silent_1 = {.rank = 1};
  const Pulse answers_1 = {.rank = 1, .age = std::chrono::seconds(1)};
  const struct {
    const char* what;
    NodeState node;
    std::vector<Pulse> pulses;
    int64_t attempt;
  } table[] = {
      {"not asked yet", NodeState::kUnready, {answers}, 0},
      {"its rank answers", NodeState::kUnready, {answers, answers_1}, 0},
      {"silent beside one that answers", NodeState::kUnready, {answers, silent_1}, 1},
      {"all silent", NodeState::kUnready, {silent_0, silent_1}, 0},
      {"silent on a node that is ready", NodeState::kReady, {answers, silent_1}, 0},
      {"silent on a node that is not known", NodeState::kUnknown, {answers, silent_1}, 0},
  };
  for (const auto& row : table) {
    ModelCluster cluster = running_cluster(training_job(2));
    cluster.pod(1).node_state = row.node;
    cluster.seen.pulses = row.pulses;
    cluster.job.status.progress = api::ProgressStatus{.step = 1};  // heard before
    const Plan next = cluster.decide();
    EXPECT_EQ(next.status.attempt, row.attempt) << row.what;
    EXPECT_EQ(next.status.restarts, 0) << row.what;
    if (row.attempt == 0) continue;
    EXPECT_EQ(next.status.first_failure->reason, "NodeLost") << row.what;
    EXPECT_EQ(next.status.first_failure->node, "node-1") << row.what;
  }
}

TEST(NodesTest, PodOfSeveralRanksIsLostOnceAllOfThemAreSilent) {
  api::TrainingJob job = training_job(4);
  job.spec.ranks_per_pod = 2;
  ModelCluster cluster = running_cluster(job);
  cluster.pod(2).node_state = NodeState::kUnready;
  cluster.seen.pulses = {{.rank = 0, .age = std::chrono::seconds(1)}, {.rank = 2}};
  EXPECT_EQ(cluster.decide().status.attempt, 0);
  cluster.seen.pulses.push_back({.rank = 3});
  EXPECT_EQ(cluster.decide().status.attempt, 1);
}

TEST(NodesTest, RanksOnANodeThatIsNotReadyAreLookedAtEveryTwoSeconds) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.pod(1).node_state = NodeState::kUnready;
  cluster.settle();
  EXPECT_EQ(cluster.decide().requeue_after, std::chrono::seconds(2));
}

TEST(NodesTest, RanksThatMissAPeerOnANodeThatDoesNotAnswerAreNotCharged) {
  for (const int64_t code : {82, 83}) {
    ModelCluster cluster = running_cluster(training_job(2));
    cluster.pod(1).node_state = NodeState::kUnready;
    cluster.end(0, code);
    const Plan next = cluster.decide();
    EXPECT_EQ(next.status.attempt, 1) << code;
    EXPECT_EQ(next.status.restarts, 0) << code;
    EXPECT_EQ(next.status.first_failure->reason, "NodeLost") << code;
    EXPECT_EQ(next.status.first_failure->node, "node-1") << code;
  }
}

}  // namespace
}  // namespace lockstep::plan
