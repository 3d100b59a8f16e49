// What becomes of a job's pod template, and when.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/plan.h"
#include "operator/plan/render.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using nlohmann::json;

json on_nodes(const char* kind) {
  return {{"spec", {{"nodeSelector", {{"kind", kind}}}}}};
}

api::TrainingJob job_on(const char* kind) {
  api::TrainingJob job = training_job(2);
  job.spec.pod_template = on_nodes(kind);
  return job;
}

void change_template(ModelCluster& cluster, const json& pod_template) {
  cluster.job.spec.pod_template = pod_template;
  cluster.change_spec();
}

std::vector<std::string> node_kinds(const Plan& next) {
  std::vector<std::string> kinds;
  for (const Action& action : next.actions) {
    const auto* pod = std::get_if<CreatePod>(&action);
    if (pod != nullptr) kinds.push_back(pod->body["spec"]["nodeSelector"].value("kind", "none"));
  }
  return kinds;
}

bool tells(const Plan& next, const std::string& reason) {
  return std::any_of(next.events.begin(), next.events.end(),
                     [&](const Event& event) { return event.reason == reason; });
}

TEST(PlanTemplateTest, PodsAndTheAttemptsConfigMapCarryTheTemplate) {
  ModelCluster cluster(job_on("a"));
  cluster.apply(cluster.decide());
  const Plan next = cluster.decide();
  EXPECT_EQ(node_kinds(next), (std::vector<std::string>{"a", "a"}));
  const auto& config_map = std::get<CreateConfigMap>(next.actions.at(0));
  EXPECT_EQ(config_map.body["data"][kTemplateKey], template_text(on_nodes("a")));
  EXPECT_EQ(render_config_map(training_job(2), {.number = 0, .ranks = 2})["data"].size(), 1u);
}

TEST(PlanTemplateTest, APodOfTheSameAttemptIsMadeFromTheSameTemplateHoweverLate) {
  ModelCluster cluster(job_on("a"));
  cluster.settle();
  cluster.run_all();
  cluster.settle();
  change_template(cluster, on_nodes("b"));
  const Plan changed = cluster.decide();
  EXPECT_TRUE(tells(changed, "TemplateChanged"));
  EXPECT_TRUE(changed.actions.empty());
  cluster.apply(changed);
  EXPECT_FALSE(tells(cluster.decide(), "TemplateChanged")) << "told once";
  EXPECT_EQ(cluster.settle(), 0);
  EXPECT_EQ(cluster.job.status.attempt, 0);
  cluster.end(1, 70);
  cluster.now += std::chrono::seconds(30);
  for (int round = 0; round < 8; ++round) {
    const Plan next = cluster.decide();
    if (const std::vector<std::string> kinds = node_kinds(next); !kinds.empty()) {
      EXPECT_EQ(cluster.job.status.attempt, 1);
      EXPECT_EQ(kinds, (std::vector<std::string>{"b", "b"}));
      return;
    }
    cluster.apply(next);
    cluster.now += std::chrono::seconds(5);
  }
  FAIL() << "no second attempt";
}

TEST(PlanTemplateTest, AnOperatorThatCrashedBetweenPodsGoesOnWithTheTemplateOfTheConfigMap) {
  ModelCluster cluster(job_on("a"));
  cluster.settle();
  cluster.run_all();
  cluster.settle();
  ASSERT_TRUE(is_true(cluster.job.status, kScheduled));
  // Lost before the others were told: the pod is missing, and the spec is another by now.
  cluster.job.spec.pod_template = on_nodes("b");
  cluster.remove_pod("demo-0-1");
  cluster.pod(0).phase = PodPhase::kPending;
  const Plan next = cluster.decide();
  for (const std::string& kind : node_kinds(next)) EXPECT_EQ(kind, "a");
}

TEST(PlanTemplateTest, AGangThatWaitsForNodesGivesWayToTheNewTemplateAtOnce) {
  ModelCluster cluster(job_on("none-such"));
  cluster.settle();
  change_template(cluster, on_nodes("b"));
  const Plan next = cluster.decide();
  EXPECT_TRUE(next.actions.empty()) << "an attempt begins, or objects are touched";
  EXPECT_EQ(next.status.attempt, 1);
  EXPECT_EQ(next.status.restarts, 0);
  EXPECT_TRUE(tells(next, "TemplateChanged"));
  cluster.apply(next);
  EXPECT_EQ(node_kinds(cluster.decide()), (std::vector<std::string>{"b", "b"}));
  EXPECT_LT(cluster.settle(), 5);
  cluster.remove_deleting_pods();
  EXPECT_LT(cluster.settle(), 5);
  EXPECT_EQ(cluster.seen.pods.size(), 2u);
  EXPECT_EQ(cluster.seen.config_maps.size(), 1u);
}

TEST(PlanTemplateTest, APodKeepsItsRanksWhenItsGangGivesWayToANewTemplate) {
  api::TrainingJob job = training_job(4);
  job.spec.ranks_per_pod = 2;
  ModelCluster cluster(job);
  cluster.settle();
  change_template(cluster, on_nodes("b"));
  EXPECT_EQ(cluster.decide().status.ranks.per_pod, 2);
  EXPECT_LT(cluster.settle(), 5);
  cluster.remove_deleting_pods();
  EXPECT_EQ(cluster.seen.pods.size(), 2u);
}

TEST(PlanTemplateTest, ATemplateThatIsRefusedLeavesARunningGangAloneAndStopsTheNext) {
  ModelCluster cluster = running_cluster(job_on("a"));
  change_template(cluster, {{"spec", {{"restartPolicy", "Always"}}}});
  cluster.settle();
  EXPECT_FALSE(is_true(cluster.job.status, kAccepted));
  EXPECT_NE(find_condition(cluster.job.status, kAccepted)
                ->message.find("spec.template.spec.restartPolicy"),
            std::string::npos);
  EXPECT_TRUE(is_true(cluster.job.status, kRunning));
  cluster.end(1, 70);
  for (int round = 0; round < 8; ++round) {
    cluster.now += std::chrono::seconds(30);
    cluster.settle();
    cluster.remove_deleting_pods();
  }
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_EQ(cluster.job.status.state, "Invalid");
  EXPECT_TRUE(node_kinds(cluster.decide()).empty());
  EXPECT_EQ(cluster.settle(), 0) << "at rest";
  change_template(cluster, on_nodes("b"));
  EXPECT_LT(cluster.settle(), 10);
  EXPECT_EQ(cluster.job.status.state, "Restarting");
  EXPECT_EQ(cluster.job.status.attempt, 1);
  EXPECT_EQ(cluster.seen.pods.size(), 3u) << "the gang, and the first that failed";
}

TEST(PlanTemplateTest, OnTheHostsNetworkThePodKeepsTheClustersNames) {
  const auto policy = [](const json& pod_template) {
    const json pod = render_pod(
        training_job(1), {.number = 0, .ranks = 1, .pod_template = pod_template}, 0, Settings{});
    return pod["spec"].value("dnsPolicy", "");
  };
  EXPECT_EQ(policy({}), "");
  EXPECT_EQ(policy({{"spec", {{"hostNetwork", true}}}}), "ClusterFirstWithHostNet");
  EXPECT_EQ(policy({{"spec", {{"hostNetwork", true}, {"dnsPolicy", "None"}}}}), "None");
}

TEST(PlanTemplateTest, AProgramOfOnesOwnStopsInTheTimeThatItsTemplateGives) {
  const json patient = {{"spec", {{"terminationGracePeriodSeconds", 300}}}};
  api::TrainingJob job = command_job(1);
  EXPECT_EQ(grace_period(job, {}), std::chrono::seconds(30));
  EXPECT_EQ(grace_period(job, patient), std::chrono::seconds(300));

  job.spec.pod_template = patient;
  ModelCluster cluster(job);
  cluster.settle();
  cluster.run_all();
  cluster.settle();
  change_template(cluster, json::object());  // for the next attempt
  cluster.settle();
  cluster.job.spec.suspend = true;
  cluster.change_spec();
  std::vector<int64_t> graces;
  for (int round = 0; round < 4; ++round) {
    const Plan next = cluster.decide();
    for (const Action& action : next.actions) {
      if (const auto* deletion = std::get_if<DeletePod>(&action)) {
        graces.push_back(deletion->grace_seconds);
      }
    }
    cluster.apply(next);
  }
  EXPECT_EQ(graces, std::vector<int64_t>{300});
}

TEST(PlanTemplateTest, ARankThatEndedBesideASidecarHoldsItsNodeUntilItsPodGoes) {
  ModelCluster cluster = running_cluster(training_job(2));
  cluster.end(0, 0);
  cluster.end(1, 0);
  cluster.pod(1).lingers = true;
  cluster.settle();
  ASSERT_TRUE(is_true(cluster.job.status, kSucceeded));
  EXPECT_FALSE(cluster.pod(0).deleting);
  EXPECT_TRUE(cluster.pod(1).deleting) << "cleanPodPolicy: Running";
}

}  // namespace
}  // namespace lockstep::plan
