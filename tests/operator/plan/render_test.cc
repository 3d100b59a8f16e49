#include "operator/plan/render.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/job_fields.h"
#include "runtime/common/env_names.h"
#include "runtime/common/worker_env.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using nlohmann::json;

const Settings kSettings = {.runtime_image = "example.test/runtime:1"};

const json& container_of(const json& pod) {
  return pod.at("spec").at("containers").at(0);
}

std::map<std::string, std::string> env_of(const json& pod) {
  std::map<std::string, std::string> env;
  for (const json& variable : container_of(pod).at("env")) {
    const std::string name = variable.at("name");
    EXPECT_FALSE(env.contains(name)) << name << " is set twice";
    env[name] = variable.contains("value")
                    ? variable.at("value").get<std::string>()
                    : variable.at("valueFrom").at("fieldRef").at("fieldPath").get<std::string>();
  }
  return env;
}

const json& named(const json& list, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const json& item) { return item.at("name") == name; });
  if (found == list.end()) throw std::out_of_range("no " + name + " in " + list.dump());
  return *found;
}

TEST(RenderTest, PodTellsItsRankTheRendezvousThroughTorchrunsNames) {
  const json pod = render_pod(training_job(4), {.number = 2, .ranks = 4}, 3, kSettings);
  const auto env = env_of(pod);
  EXPECT_EQ(env.at("RANK"), "3");
  EXPECT_EQ(env.at("WORLD_SIZE"), "4");
  EXPECT_EQ(env.at("LOCAL_RANK"), "0");
  EXPECT_EQ(env.at("LOCAL_WORLD_SIZE"), "1");
  EXPECT_EQ(env.at("MASTER_ADDR"), "demo-2-0.demo");
  EXPECT_EQ(env.at("MASTER_PORT"), "29500");
  EXPECT_EQ(env.at("LOCKSTEP_JOB"), "/etc/lockstep/job.json");
  EXPECT_EQ(env.at("LOCKSTEP_ATTEMPT"), "2");
  EXPECT_EQ(env.at("LOCKSTEP_OUTPUT"), "/output");
  EXPECT_EQ(env.at("LOCKSTEP_METRICS_PORT"), "9400");
  EXPECT_EQ(env.at("POD_NAME"), "metadata.name");
  EXPECT_EQ(env.at("POD_NAMESPACE"), "metadata.namespace");
  EXPECT_EQ(env.at("POD_IP"), "status.podIP");
  EXPECT_EQ(env.at("NODE_NAME"), "spec.nodeName");
  EXPECT_EQ(container_of(pod).at("command"), json({"lockstep-runtime"}));
  EXPECT_EQ(container_of(pod).at("image"), "example.test/runtime:1");
  EXPECT_FALSE(container_of(pod).contains("args"));
}

TEST(RenderTest, OwnCommandGetsTorchrunsRendezvousToo) {
  api::TrainingJob job = command_job(2);
  job.spec.args = {"--fast"};
  const json pod = render_pod(job, {.number = 0, .ranks = 2}, 1, kSettings);
  const auto env = env_of(pod);
  EXPECT_EQ(env.at("PET_NNODES"), "2");
  EXPECT_EQ(env.at("PET_NODE_RANK"), "1");
  EXPECT_EQ(env.at("PET_NPROC_PER_NODE"), "1");
  EXPECT_EQ(env.at("PET_MASTER_ADDR"), "demo-0-0.demo");
  EXPECT_EQ(env.at("PET_MASTER_PORT"), "29500");
  EXPECT_EQ(container_of(pod).at("command"), json({"python", "train.py"}));
  EXPECT_EQ(container_of(pod).at("args"), json({"--fast"}));
  EXPECT_EQ(container_of(pod).at("image"), "example.test/mine:1");
}

TEST(RenderTest, UsersVariablesComeLastAndNeverOverrideOurs) {
  api::TrainingJob job = command_job(1);
  job.spec.env = {{"RANK", "7"}, {"PET_NNODES", "9"}, {"NCCL_DEBUG", "INFO"}};
  const json pod = render_pod(job, {.number = 0, .ranks = 1}, 0, kSettings);
  const auto env = env_of(pod);
  EXPECT_EQ(env.at("RANK"), "0");
  EXPECT_EQ(env.at("PET_NNODES"), "1");
  EXPECT_EQ(env.at("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(container_of(pod).at("env").back().at("name"), "NCCL_DEBUG");
}

TEST(RenderTest, VariablesForCommunicationReachEveryRankAndATemplateReplacesThem) {
  api::TrainingJob job = training_job(2);
  job.spec.env = {{"GREETING", "hello"}};
  job.spec.train["communication"]["env"] = {
      {"NCCL_IB_DISABLE", "1"}, {"GLOO_SOCKET_IFNAME", "eth1"}, {"RANK", "7"}};
  for (const int64_t rank : {0, 1}) {
    const auto env = env_of(render_pod(job, {.number = 0, .ranks = 2}, rank, kSettings));
    EXPECT_EQ(env.at("NCCL_IB_DISABLE"), "1");
    EXPECT_EQ(env.at("GLOO_SOCKET_IFNAME"), "eth1");
    EXPECT_EQ(env.at("GREETING"), "hello");
    EXPECT_EQ(env.at("RANK"), std::to_string(rank));
  }
  const json pod_template = json::parse(R"({"spec": {"containers": [
      {"name": "trainer", "env": [{"name": "GLOO_SOCKET_IFNAME", "value": "net1"}]}]}})");
  const auto env = env_of(
      render_pod(job, {.number = 0, .ranks = 2, .pod_template = pod_template}, 0, kSettings));
  EXPECT_EQ(env.at("GLOO_SOCKET_IFNAME"), "net1");
  EXPECT_EQ(env.at("NCCL_IB_DISABLE"), "1");
}

// A container's `env` wins over its `envFrom` and its image: a reserved name that is not in `env`
// would be for either to set.
TEST(RenderTest, EveryReservedVariableIsSetSoThatNoSourceOfATemplateSetsIt) {
  for (const api::TrainingJob& job : {training_job(4), command_job(4)}) {
    for (const int64_t ranks_per_pod : {1, 2}) {
      const AttemptSpec attempt = {.number = 2, .ranks = 4, .ranks_per_pod = ranks_per_pod};
      const auto env = env_of(render_pod(job, attempt, 2, kSettings));
      for (const std::string& name : common::reserved_env_names()) {
        EXPECT_TRUE(env.contains(name)) << name;
      }
      std::vector<std::string> asked = {"LOCKSTEP_ISA", "LOCKSTEP_PRODUCTS"};  // of the kernels
      const auto of_pod = [&](const std::string& name) -> std::optional<std::string> {
        asked.push_back(name);
        const auto found = env.find(name);
        return found == env.end() ? std::nullopt : std::optional(found->second);
      };
      const auto read = common::read_worker_env(of_pod);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->rank, 2);
      EXPECT_EQ(read->ranks_per_pod, ranks_per_pod);
      EXPECT_EQ(read->termination_path, "/dev/termination-log");
      EXPECT_EQ(read->listen_address, "0.0.0.0");
      EXPECT_EQ(read->output_mode, common::OutputMode::kAuto);
      EXPECT_EQ(read->metrics_port_file, "");
      EXPECT_GT(asked.size(), 15u);
      for (const std::string& name : asked) {
        if (name == "GLOO_SOCKET_IFNAME") continue;  // the user's, or the image's
        EXPECT_TRUE(env.contains(name)) << name;
        EXPECT_TRUE(common::is_reserved_env(name)) << name;
      }
    }
  }
}

TEST(RenderTest, RanksOfAJobThatAsksForGpusComputeOnThem) {
  api::TrainingJob job = training_job(2);
  const auto device_of = [&job](const json& resources) {
    job.spec.resources = resources;
    return env_of(render_pod(job, {.number = 0, .ranks = 2}, 0, kSettings)).at("LOCKSTEP_DEVICE");
  };
  EXPECT_EQ(device_of({{"limits", {{"nvidia.com/gpu", 1}}}}), "cuda");
  EXPECT_EQ(device_of({{"limits", {{"nvidia.com/mig-1g.10gb", "1"}}}}), "cuda");
  EXPECT_EQ(device_of({{"limits", {{"nvidia.com/gpu", 0}}}}), "cpu");
  EXPECT_EQ(device_of({{"limits", {{"cpu", "8"}}}}), "cpu");
  EXPECT_EQ(device_of({}), "cpu");
}

TEST(RenderTest, TheImageFollowsWhatRanksComputeOnUnlessTheJobNamesOne) {
  const Settings settings = {.runtime_image = "example.test/runtime-cpu:1",
                             .gpu_runtime_image = "example.test/runtime:1"};
  api::TrainingJob job = training_job(2);
  const auto image_on = [&job](const json& resources, const Settings& by) {
    job.spec.resources = resources;
    const json pod = render_pod(job, {.number = 0, .ranks = 2}, 0, by);
    return pod.at("spec").at("containers").at(0).at("image").get<std::string>();
  };
  const json gpu = {{"limits", {{"nvidia.com/gpu", 1}}}};
  const json part_of_one = {{"requests", {{"nvidia.com/mig-1g.10gb", "1"}}}};
  const json none = {{"limits", {{"nvidia.com/gpu", 0}, {"cpu", "8"}}}};
  EXPECT_EQ(image_on(gpu, settings), "example.test/runtime:1");
  EXPECT_EQ(image_on(part_of_one, settings), "example.test/runtime:1");
  EXPECT_EQ(image_on(none, settings), "example.test/runtime-cpu:1");
  EXPECT_EQ(image_on({}, settings), "example.test/runtime-cpu:1");
  EXPECT_EQ(image_on(gpu, kSettings), kSettings.runtime_image);  // one image for both
  job.spec.image = "example.test/own:1";
  EXPECT_EQ(image_on(gpu, settings), "example.test/own:1");
}

TEST(RenderTest, PodHasANameInTheServiceAndIsOwnedByTheJob) {
  const json pod = render_pod(command_job(2), {.number = 5, .ranks = 2}, 1, kSettings);
  EXPECT_EQ(pod.at("metadata").at("name"), "demo-5-1");
  EXPECT_EQ(pod.at("metadata").at("namespace"), "team");
  EXPECT_EQ(pod.at("spec").at("hostname"), "demo-5-1");
  EXPECT_EQ(pod.at("spec").at("subdomain"), "demo");
  const json& owners = pod.at("metadata").at("ownerReferences");
  ASSERT_EQ(owners.size(), 1u);
  EXPECT_EQ(owners.at(0), json({{"apiVersion", "lockstep.dev/v1alpha1"},
                                {"kind", "TrainingJob"},
                                {"name", "demo"},
                                {"uid", "job-uid"},
                                {"controller", true},
                                {"blockOwnerDeletion", true}}));
}

TEST(RenderTest, PodMeetsTheRestrictedSecurityStandard) {
  const json pod = render_pod(command_job(1), {.number = 0, .ranks = 1}, 0, kSettings);
  const json& spec = pod.at("spec");
  EXPECT_EQ(spec.at("securityContext").at("runAsNonRoot"), true);
  EXPECT_EQ(spec.at("securityContext").at("runAsUser"), 65532);
  EXPECT_EQ(spec.at("securityContext").at("fsGroup"), 65532);
  EXPECT_EQ(spec.at("securityContext").at("seccompProfile").at("type"), "RuntimeDefault");
  const json security = container_of(pod).at("securityContext");
  EXPECT_EQ(security.at("allowPrivilegeEscalation"), false);
  EXPECT_EQ(security.at("capabilities").at("drop"), json({"ALL"}));
  EXPECT_EQ(spec.at("automountServiceAccountToken"), false);
  EXPECT_EQ(spec.at("enableServiceLinks"), false);
  EXPECT_EQ(spec.at("restartPolicy"), "Never");
  EXPECT_EQ(container_of(pod).at("terminationMessagePolicy"), "FallbackToLogsOnError");
}

TEST(RenderTest, OurOwnProgramWritesNowhereButToItsVolumes) {
  const auto is_read_only = [](const json& pod) {
    return container_of(pod).at("securityContext").at("readOnlyRootFilesystem").get<bool>();
  };
  const auto writable = [](const json& pod) {
    std::set<std::string> folders;
    for (const json& mount : container_of(pod).at("volumeMounts")) {
      if (!mount.value("readOnly", false)) folders.insert(mount.at("mountPath"));
    }
    return folders;
  };
  api::TrainingJob job = training_job(1);
  const json pod = render_pod(job, {.number = 0, .ranks = 1}, 0, kSettings);
  EXPECT_TRUE(is_read_only(pod));
  EXPECT_EQ(writable(pod), std::set<std::string>({"/dev/shm", "/output", "/tmp"}));
  EXPECT_TRUE(named(pod.at("spec").at("volumes"), "lockstep-tmp").at("emptyDir").is_object());

  const json own = render_pod(command_job(1), {.number = 0, .ranks = 1}, 0, kSettings);
  EXPECT_FALSE(is_read_only(own));
  EXPECT_EQ(writable(own), std::set<std::string>({"/dev/shm", "/output"}));

  for (const char* place : {"/tmp", "/tmp/"}) {
    job.spec.inputs = json::array({{{"name", "scratch"}, {"mountPath", place}, {"emptyDir", {}}}});
    const json taken = render_pod(job, {.number = 0, .ranks = 1}, 0, kSettings);
    EXPECT_EQ(writable(taken), std::set<std::string>({"/dev/shm", "/output"})) << place;
  }
}

TEST(RenderTest, GracePeriodLeavesTimeForTheCheckpoint) {
  api::TrainingJob job = training_job(1);
  job.spec.train["checkpoint"]["gracePeriodSeconds"] = 300;
  const json pod = render_pod(job, {.number = 0, .ranks = 1}, 0, kSettings);
  EXPECT_EQ(pod.at("spec").at("terminationGracePeriodSeconds"), 315);
  EXPECT_EQ(grace_period(command_job(1), {}), std::chrono::seconds(30));
}

TEST(RenderTest, VolumesHoldConfigSharedMemoryInputsAndOutput) {
  api::TrainingJob job = training_job(2);
  job.spec.inputs = json::array({{{"name", "corpus"},
                                  {"mountPath", "/data"},
                                  {"persistentVolumeClaim", {{"claimName", "texts"}}}}});
  job.spec.output = {{"persistentVolumeClaim", {{"claimName", "runs"}}}};
  job.spec.resources = {{"limits", {{"cpu", "8"}}}};
  job.spec.image_pull_secrets = {"pull"};
  const json pod = render_pod(job, {.number = 1, .ranks = 2}, 0, kSettings);
  const json& volumes = pod.at("spec").at("volumes");
  EXPECT_EQ(named(volumes, "config").at("configMap").at("name"), "demo-1");
  EXPECT_EQ(named(volumes, "shm").at("emptyDir").at("medium"), "Memory");
  EXPECT_EQ(named(volumes, "input-corpus"),
            json({{"name", "input-corpus"}, {"persistentVolumeClaim", {{"claimName", "texts"}}}}));
  EXPECT_EQ(named(volumes, "output").at("persistentVolumeClaim").at("claimName"), "runs");
  const json mounts = container_of(pod).at("volumeMounts");
  EXPECT_EQ(named(mounts, "config").at("mountPath"), "/etc/lockstep");
  EXPECT_EQ(named(mounts, "shm").at("mountPath"), "/dev/shm");
  EXPECT_EQ(named(mounts, "input-corpus").at("mountPath"), "/data");
  EXPECT_EQ(named(mounts, "input-corpus").at("readOnly"), true);
  EXPECT_EQ(named(mounts, "output").at("mountPath"), "/output");
  EXPECT_EQ(container_of(pod).at("resources").at("limits").at("cpu"), "8");
  EXPECT_EQ(pod.at("spec").at("imagePullSecrets").at(0).at("name"), "pull");
}

TEST(RenderTest, JobWithoutOutputGetsAFolderOfThePod) {
  const json pod = render_pod(training_job(1), {.number = 0, .ranks = 1}, 0, kSettings);
  EXPECT_TRUE(named(pod.at("spec").at("volumes"), "output").at("emptyDir").is_object());
}

TEST(RenderTest, ConfigMapIsImmutableAndHoldsTheJobFile) {
  const api::TrainingJob job = training_job(8);
  const json map = render_config_map(job, {.number = 1, .ranks = 4});
  EXPECT_EQ(map.at("metadata").at("name"), "demo-1");
  EXPECT_EQ(map.at("immutable"), true);
  const json file = json::parse(map.at("data").at("job.json").get<std::string>());
  EXPECT_EQ(file, json({{"name", "demo"}, {"ranks", 4}, {"train", job.spec.train}}));
}

TEST(RenderTest, ServiceIsHeadlessAndAnswersBeforeReadiness) {
  const json service = render_service(training_job(1), kSettings);
  EXPECT_EQ(service.at("metadata").at("name"), "demo");
  EXPECT_EQ(service.at("spec").at("clusterIP"), "None");
  EXPECT_EQ(service.at("spec").at("publishNotReadyAddresses"), true);
  EXPECT_EQ(service.at("spec").at("selector"), json({{"lockstep.dev/job-name", "demo"}}));
  EXPECT_EQ(named(service.at("spec").at("ports"), "master").at("port"), 29500);
  EXPECT_EQ(named(service.at("spec").at("ports"), "metrics").at("port"), 9400);
}

}  // namespace
}  // namespace lockstep::plan
