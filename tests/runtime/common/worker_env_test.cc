#include "runtime/common/worker_env.h"

#include <map>

#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

using Variables = std::map<std::string, std::string>;

Variables complete() {
  return {{"RANK", "1"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "job-0-0.job"},
          {"MASTER_PORT", "29500"},
          {"LOCKSTEP_JOB", "/job/job.json"},
          {"LOCKSTEP_ATTEMPT", "3"},
          {"LOCKSTEP_RUN_ID", "7c9e"},
          {"LOCKSTEP_OUTPUT", "/output"},
          {"LOCKSTEP_METRICS_PORT", "0"},
          {"LOCKSTEP_METRICS_PORT_FILE", "/run/port"},
          {"LOCKSTEP_SHM_DIR", "/run/shm"},
          {"GLOO_SOCKET_IFNAME", "eth1"},
          {"LOCKSTEP_RANKS_PER_POD", "1"},
          {"LOCKSTEP_GRACE_SECONDS", "135"}};
}

Result<WorkerEnv> read(const Variables& variables) {
  return read_worker_env([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(WorkerEnvTest, ReadsEveryVariable) {
  const auto env = read(complete());
  ASSERT_TRUE(env) << env.error().message;
  EXPECT_EQ(env->rank, 1);
  EXPECT_EQ(env->world_size, 4);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_world_size, 2);
  EXPECT_EQ(env->master_addr, "job-0-0.job");
  EXPECT_EQ(env->master_port, 29500);
  EXPECT_EQ(env->job_path, "/job/job.json");
  EXPECT_EQ(env->attempt, 3);
  EXPECT_EQ(env->run_id, "7c9e");
  EXPECT_EQ(env->output, "/output");
  EXPECT_EQ(env->output_mode, OutputMode::kAuto);
  EXPECT_EQ(env->metrics_port, 0);
  EXPECT_EQ(env->termination_path, "/dev/termination-log");
  EXPECT_EQ(env->metrics_port_file, "/run/port");
  EXPECT_EQ(env->shm_folder, "/run/shm");
  EXPECT_EQ(env->network_interface, "eth1");
  EXPECT_EQ(env->ranks_per_pod, 1);
  EXPECT_EQ(env->grace_seconds, 135);
}

TEST(WorkerEnvTest, PodHoldsNoMoreRanksThanAreLocal) {
  Variables variables = complete();
  variables["LOCAL_RANK"] = "0";
  variables["LOCKSTEP_RANKS_PER_POD"] = "2";
  EXPECT_TRUE(read(variables));
  variables["LOCKSTEP_RANKS_PER_POD"] = "3";
  const auto env = read(variables);
  ASSERT_FALSE(env);
  EXPECT_EQ(env.error().message,
            "LOCKSTEP_RANKS_PER_POD: expected a number from 1 to 2, found '3'");
}

TEST(WorkerEnvTest, OneRankNeedsNoMaster) {
  const auto env =
      read({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCKSTEP_JOB", "j"}, {"LOCKSTEP_OUTPUT", "o"}});
  ASSERT_TRUE(env) << env.error().message;
  EXPECT_EQ(env->metrics_port, 9400);
  EXPECT_EQ(env->run_id, "");
}

TEST(WorkerEnvTest, ReadsOutputMode) {
  Variables variables = complete();
  variables["LOCKSTEP_OUTPUT_MODE"] = "overwrite";
  EXPECT_EQ(read(variables)->output_mode, OutputMode::kOverwrite);
  variables["LOCKSTEP_OUTPUT_MODE"] = "resume";
  EXPECT_EQ(read(variables)->output_mode, OutputMode::kResume);
}

TEST(WorkerEnvTest, ReadsTheDevice) {
  Variables variables = complete();
  EXPECT_EQ(read(variables)->device, DeviceChoice::kProcessor);
  const std::map<std::string, DeviceChoice> names = {{"", DeviceChoice::kProcessor},
                                                     {"cpu", DeviceChoice::kProcessor},
                                                     {"cuda", DeviceChoice::kGpu},
                                                     {"cuda-shared", DeviceChoice::kSharedGpu}};
  for (const auto& [name, choice] : names) {
    variables["LOCKSTEP_DEVICE"] = name;
    EXPECT_EQ(read(variables)->device, choice) << name;
  }
}

TEST(WorkerEnvTest, EveryErrorNamesTheVariableAndWhatWasFound) {
  const std::map<std::string, std::string> wrong = {{"RANK", "4"},
                                                    {"WORLD_SIZE", "0"},
                                                    {"LOCAL_RANK", "2"},
                                                    {"LOCAL_WORLD_SIZE", "5"},
                                                    {"MASTER_PORT", "70000"},
                                                    {"LOCKSTEP_ATTEMPT", "-1"},
                                                    {"LOCKSTEP_METRICS_PORT", "94x"},
                                                    {"LOCKSTEP_DEVICE", "gpu"},
                                                    {"LOCKSTEP_OUTPUT_MODE", "maybe"}};
  for (const auto& [name, value] : wrong) {
    Variables variables = complete();
    variables[name] = value;
    const auto env = read(variables);
    ASSERT_FALSE(env) << name;
    EXPECT_EQ(env.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(env.error().message.find(name), std::string::npos) << env.error().message;
    EXPECT_NE(env.error().message.find("'" + value + "'"), std::string::npos);
  }
}

TEST(WorkerEnvTest, MissingVariablesAreNamed) {
  for (const char* const name :
       {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCKSTEP_JOB", "LOCKSTEP_OUTPUT"}) {
    Variables variables = complete();
    variables.erase(name);
    const auto env = read(variables);
    ASSERT_FALSE(env) << name;
    EXPECT_NE(env.error().message.find(name), std::string::npos) << env.error().message;
    EXPECT_FALSE(env.error().hint.empty());
  }
}

}  // namespace
}  // namespace lockstep::common
