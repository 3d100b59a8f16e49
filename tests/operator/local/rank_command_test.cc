#include "operator/local/rank_command.h"

#include <gtest/gtest.h>

#include "operator/plan/render.h"

namespace lockstep::local {
namespace {

api::TrainingJob demo_job() {
  api::TrainingJob job;
  job.meta = {.name = "demo", .ns = "local", .uid = "u"};
  job.spec.ranks = 2;
  job.spec.train = {{"steps", 3}};
  return job;
}

ProcessPlace place() {
  return {.job_file = "/out/logs/demo-0.json",
          .output = "/out",
          .log_file = "/out/logs/attempt-0/rank-1.log",
          .termination_file = "/out/logs/attempt-0/rank-1.end",
          .runtime_program = "/bin/lockstep-runtime",
          .master_port = 4000,
          .metrics_port = 4001,
          .output_mode = "overwrite"};
}

TEST(RankCommandTest, RunsThePlannedPodWithPathsAndPortsOfThisMachine) {
  const nlohmann::json pod = plan::render_pod(demo_job(), {.number = 3, .ranks = 2}, 1, {"image"});
  const RankCommand command = rank_command(pod, place());
  EXPECT_EQ(command.argv, std::vector<std::string>{"/bin/lockstep-runtime"});
  const std::map<std::string, std::string> expected = {{"RANK", "1"},
                                                       {"WORLD_SIZE", "2"},
                                                       {"LOCAL_RANK", "1"},
                                                       {"LOCAL_WORLD_SIZE", "2"},
                                                       {"MASTER_ADDR", "127.0.0.1"},
                                                       {"MASTER_PORT", "4000"},
                                                       {"LOCKSTEP_ATTEMPT", "3"},
                                                       {"LOCKSTEP_JOB", "/out/logs/demo-0.json"},
                                                       {"LOCKSTEP_OUTPUT", "/out"},
                                                       {"LOCKSTEP_OUTPUT_MODE", "overwrite"},
                                                       {"LOCKSTEP_METRICS_PORT", "4001"},
                                                       {"LOCKSTEP_RANKS_PER_POD", "1"},
                                                       {"LOCKSTEP_LISTEN_ADDRESS", "127.0.0.1"}};
  for (const auto& [name, value] : expected) EXPECT_EQ(command.env.at(name), value) << name;
  EXPECT_FALSE(command.env.contains("LOCKSTEP_ISA")) << "the shell's counts";
  EXPECT_FALSE(command.env.contains("LOCKSTEP_PRODUCTS"));
  EXPECT_FALSE(command.env.contains("LOCKSTEP_DEVICE"));
}

TEST(RankCommandTest, TakesCommandAndEnvironmentOfTheTemplate) {
  const nlohmann::json pod_template = nlohmann::json::parse(R"({"spec": {"containers": [
      {"name": "side", "command": ["other"]},
      {"name": "trainer", "command": ["numactl", "-l", "lockstep-runtime"],
       "env": [{"name": "A", "value": "1"}, {"name": "EMPTY"},
               {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
               {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]}})");
  const nlohmann::json pod = plan::render_pod(
      demo_job(), {.number = 0, .ranks = 2, .pod_template = pod_template}, 0, {"image"});
  const RankCommand command = rank_command(pod, place());
  EXPECT_EQ(command.argv, (std::vector<std::string>{"numactl", "-l", "/bin/lockstep-runtime"}));
  EXPECT_EQ(command.env.at("A"), "1");
  EXPECT_EQ(command.env.at("EMPTY"), "");
  EXPECT_EQ(command.env.at("NAME"), "demo-0-0");
  EXPECT_FALSE(command.env.contains("KEY"));
  EXPECT_EQ(command.env.at("RANK"), "0");
}

TEST(RankCommandTest, GivesRanksTheVariablesForCommunication) {
  api::TrainingJob job = demo_job();
  job.spec.train["communication"]["env"] = {{"GLOO_SOCKET_IFNAME", "lo"}};
  const nlohmann::json pod = plan::render_pod(job, {.number = 0, .ranks = 2}, 1, {"image"});
  EXPECT_EQ(rank_command(pod, place()).env.at("GLOO_SOCKET_IFNAME"), "lo");
}

TEST(RankCommandTest, KeepsAProgramOfTheUsersOwnAndItsArguments) {
  api::TrainingJob job = demo_job();
  job.spec.train = nullptr;
  job.spec.command = {"python", "train.py"};
  job.spec.args = {"--lr", "1e-3"};
  job.spec.env = {{"GREETING", "hello"}};
  const nlohmann::json pod = plan::render_pod(job, {.number = 0, .ranks = 2}, 0, {"image"});
  const RankCommand command = rank_command(pod, place());
  EXPECT_EQ(command.argv, (std::vector<std::string>{"python", "train.py", "--lr", "1e-3"}));
  EXPECT_EQ(command.env.at("GREETING"), "hello");
  EXPECT_EQ(command.env.at("PET_MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(command.env.at("PET_MASTER_PORT"), "4000");
}

}  // namespace
}  // namespace lockstep::local
