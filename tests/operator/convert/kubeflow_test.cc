#include "operator/convert/kubeflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/convert/import_checks.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string pytorchjob(const std::string& spec) {
  return "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: job, namespace: "
         "ml}\nspec:\n" +
         spec;
}

// A role with one container, which `container` adds to.
std::string role(const std::string& name, int replicas, const std::string& container = "") {
  return "    " + name + ":\n      replicas: " + std::to_string(replicas) +
         "\n      restartPolicy: OnFailure\n      template:\n        spec:\n          containers:\n"
         "          - name: pytorch\n            image: example/mnist:1\n" +
         container;
}

constexpr const char* kCommand = "            command: [python3, /opt/mnist.py, --epochs=1]\n";

// In the shape of the simple example of the training operator's documentation.
TEST(PyTorchJobTest, CountsMasterAndWorkers) {
  const Imported imported = import_valid(pytorchjob(
      "  pytorchReplicaSpecs:\n" + role("Master", 1, kCommand) + role("Worker", 3, kCommand)));
  EXPECT_EQ(field(imported, "ranks"), 4);
  EXPECT_EQ(field(imported, "image"), "example/mnist:1");
  EXPECT_EQ(field(imported, "command"), json({"python3", "/opt/mnist.py", "--epochs=1"}));
  EXPECT_EQ(imported.conversion.metadata, json({{"name", "job"}, {"namespace", "ml"}}));
  EXPECT_EQ(refusals(imported), "");
  EXPECT_EQ(to_change(imported), "");
  EXPECT_EQ(
      fate(imported, "spec.pytorchReplicaSpecs.Master.template.spec.containers.pytorch.image"),
      "mapped image");
}

// In the shape of its MNIST example: args for the image's own entry point.
TEST(PyTorchJobTest, MarksAnEntryPointThatOnlyTheImageKnows) {
  const Imported imported = import_valid(pytorchjob(
      "  pytorchReplicaSpecs:\n" + role("Worker", 2,
                                        "            args: [--backend, nccl]\n            "
                                        "resources: {limits: {nvidia.com/gpu: 1}}\n")));
  EXPECT_EQ(to_change(imported), "command");
  EXPECT_EQ(field(imported, "args"), json({"--backend", "nccl"}));
  EXPECT_EQ(field(imported, "resources"), json({{"limits", {{"nvidia.com/gpu", 1}}}}));
  EXPECT_EQ(field(imported, "ranks"), 2);
}

// In the shape of its elastic and multi-process examples.
TEST(PyTorchJobTest, TakesProcessesPerNodeAndPolicies) {
  const Imported imported = import_valid(pytorchjob(
      "  nprocPerNode: \"4\"\n"
      "  elasticPolicy: {minReplicas: 1, maxReplicas: 2, maxRestarts: 10, rdzvBackend: c10d}\n"
      "  runPolicy: {cleanPodPolicy: None, ttlSecondsAfterFinished: 60, activeDeadlineSeconds: "
      "600,\n"
      "              suspend: true, schedulingPolicy: {minAvailable: 2, queue: gold}}\n"
      "  pytorchReplicaSpecs:\n" +
      role("Worker", 2,
           "            command: [torchrun, train.py]\n"
           "            env:\n"
           "            - {name: NCCL_DEBUG, value: INFO}\n"
           "            - {name: MASTER_PORT, value: \"1\"}\n"
           "            - {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}\n"
           "            resources: {limits: {nvidia.com/gpu: 4}}\n"
           "            volumeMounts:\n"
           "            - {name: data, mountPath: /data}\n"
           "            - {name: shm, mountPath: /dev/shm}\n"
           "            - {name: fast, mountPath: /fast}\n"
           "          - name: sidecar\n            image: example/side:1\n"
           "          volumes:\n"
           "          - {name: data, persistentVolumeClaim: {claimName: data}}\n"
           "          - {name: shm, emptyDir: {medium: Memory}}\n"
           "          - {name: fast, emptyDir: {medium: Memory}}\n"
           "          nodeSelector: {pool: gpu}\n")));
  EXPECT_EQ(field(imported, "ranks"), 8);
  EXPECT_EQ(field(imported, "ranksPerPod"), 4);
  EXPECT_EQ(field(imported, "failurePolicy.maxRestarts"), 10);
  EXPECT_EQ(field(imported, "cleanPodPolicy"), "None");
  EXPECT_EQ(field(imported, "suspend"), true);
  EXPECT_EQ(field(imported, "env"), json({{{"name", "NCCL_DEBUG"}, {"value", "INFO"}}}));
  EXPECT_EQ(field(imported, "resources"), json());
  const json pod = field(imported, "template.spec");
  EXPECT_EQ(pod.at("nodeSelector"), json({{"pool", "gpu"}}));
  EXPECT_EQ(pod.at("volumes").size(), 2);  // all but that of /dev/shm
  EXPECT_EQ(pod.at("containers").size(), 2);
  const auto trainer = std::find_if(pod.at("containers").begin(), pod.at("containers").end(),
                                    [](const json& each) { return each.at("name") == "trainer"; });
  EXPECT_EQ(trainer->at("resources"), json({{"limits", {{"nvidia.com/gpu", 4}}}}));
  EXPECT_EQ(trainer->at("volumeMounts").size(), 2);
  EXPECT_EQ(trainer->at("env").size(), 1);
  EXPECT_EQ(refusals(imported), "spec.runPolicy.schedulingPolicy.queue");
  EXPECT_EQ(fate(imported, "spec.pytorchReplicaSpecs.Worker.template.spec.containers.pytorch.env"),
            "changed");
}

TEST(PyTorchJobTest, RefusesTemplatesThatDiffer) {
  const Imported imported = import_valid(pytorchjob(
      "  pytorchReplicaSpecs:\n" +
      role("Master", 1, std::string(kCommand) + "          nodeSelector: {a: b}\n") +
      role("Worker", 1, "            command: [python3, other.py]\n          hostname: x\n")));
  EXPECT_EQ(refusals(imported),
            "spec.pytorchReplicaSpecs.Worker.template.spec.containers.pytorch.command "
            "spec.pytorchReplicaSpecs.Worker.template.spec.hostname");
  EXPECT_EQ(fate(imported, "spec.pytorchReplicaSpecs.Master.template.spec.nodeSelector"),
            "changed template");
}

TEST(PyTorchJobTest, RefusesASecondKeyOfOneField) {
  const auto with = [](const std::string& name) {
    return import_valid(pytorchjob(
        "  runPolicy: {schedulingPolicy: {priorityClass: " + name + "}}\n  pytorchReplicaSpecs:\n" +
        role("Worker", 1, std::string(kCommand) + "          priorityClassName: high\n")));
  };
  const Imported other = with("low");
  EXPECT_EQ(refusals(other), "spec.runPolicy.schedulingPolicy.priorityClass");
  EXPECT_EQ(field(other, "template.spec.priorityClassName"), "high");
  EXPECT_EQ(refusals(with("high")), "");
}

TEST(PyTorchJobTest, TakesTheContainerOfItsNameOrTheOnlyOne) {
  const auto job = [](const std::string& containers) {
    return pytorchjob("  pytorchReplicaSpecs:\n    Worker: {template: {spec: {containers: " +
                      containers + "}}}\n");
  };
  EXPECT_EQ(field(import_valid(job("[{name: a, image: x, command: [y]}]")), "image"), "x");
  const Imported second =
      import_valid(job("[{name: log, image: l}, {name: pytorch, image: x, command: [y]}]"));
  EXPECT_EQ(field(second, "image"), "x");
  EXPECT_THAT(import_broken(job("[{name: log, image: l}, {name: train, image: x}]")),
              HasSubstr("6 spec.pytorchReplicaSpecs.Worker.template.spec.containers: none of "
                        "several is called pytorch"));
  EXPECT_THAT(import_broken(job("[]")), HasSubstr("must be a list of containers, found []"));
  EXPECT_THAT(import_broken(job("5")), HasSubstr("must be a list of containers, found 5"));
}

TEST(PyTorchJobTest, AnswersWhatIsOfAnotherTypeAndNeverThrows) {
  for (const char* const containers :
       {"[{name: 5, image: x}]", "[5]", "[{name: pytorch, volumeMounts: [{mountPath: 5}]}]",
        "[{name: pytorch, volumeMounts: [5], workingDir: /w}, 5]",
        "[{name: pytorch, envFrom: [5], resources: 5}, {name: 5}]"}) {
    const std::string text = pytorchjob(
        std::string("  nprocPerNode: 2\n  pytorchReplicaSpecs:\n    Master: {template: {spec: "
                    "{volumes: [{name: 5, emptyDir: {medium: Memory}}], containers: ")
            .append(containers)
            .append("}}}\n"));
    const Imported imported =
        import_text(text, {.file_name = "a.yaml", .from = "auto", .sets = {}});
    const Conversion& conversion = imported.conversion;
    EXPECT_FALSE(conversion.notes.empty() && conversion.problems.empty()) << text;
  }
}

TEST(KubeflowTest, MetadataIsOfTexts) {
  const auto of = [](const std::string& metadata) {
    return import_broken("kind: TrainJob\nmetadata: {name: a, " + metadata +
                         "}\nspec: {trainer: {command: [a], image: b}}\n");
  };
  EXPECT_THAT(of("namespace: 5"), HasSubstr("2 metadata.namespace: must be a name, found 5"));
  EXPECT_THAT(of("labels: {a: 5}"), HasSubstr("2 metadata.labels: a must be a text, found 5"));
  EXPECT_THAT(of("annotations: {a: true}"),
              HasSubstr("2 metadata.annotations: a must be a text, found true"));
  EXPECT_THAT(of("annotations: text"), HasSubstr("must be a map, found \"text\""));
}

TEST(PyTorchJobTest, AnEmptyListOfVariablesDecidesNothing) {
  const Imported imported =
      import_valid(pytorchjob("  pytorchReplicaSpecs:\n" +
                              role("Worker", 1, std::string(kCommand) + "            env: []\n")));
  EXPECT_EQ(fate(imported, "spec.pytorchReplicaSpecs.Worker.template.spec.containers.pytorch.env"),
            "mapped");
}

TEST(PyTorchJobTest, RefusesWhatItDoesNotKnow) {
  const Imported imported = import_valid(
      "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n"
      "metadata: {name: My_Job, labels: {kueue.x-k8s.io/max-exec-time-seconds: \"9\", team: a}}\n"
      "spec:\n  pytorchReplicaSpec: {}\n  pytorchReplicaSpecs:\n" +
      role("Master", 1, kCommand) + "status: {conditions: []}\n");
  EXPECT_EQ(refusals(imported), "metadata.labels spec.pytorchReplicaSpec");
  EXPECT_EQ(imported.conversion.metadata.at("name"), "my-job");
  EXPECT_EQ(fate(imported, "metadata.name"), "changed");
}

TEST(PyTorchJobTest, SaysWhereABrokenManifestIsBroken) {
  EXPECT_THAT(import_broken(pytorchjob("  runPolicy: {}\n")),
              HasSubstr("spec.pytorchReplicaSpecs: is required"));
  const auto with = [](const std::string& spec, const std::string& container) {
    return import_broken(
        pytorchjob(spec + "  pytorchReplicaSpecs:\n" + role("Worker", 1, container)));
  };
  EXPECT_THAT(with("  nprocPerNode: many\n", kCommand), HasSubstr("5 spec.nprocPerNode: must be"));
  EXPECT_THAT(with("  runPolicy: {suspend: 3}\n", kCommand), HasSubstr("cannot be 3"));
  EXPECT_THAT(with("", "            command: python3 train.py\n"), HasSubstr("command: cannot be"));
  EXPECT_THAT(with("", "            env: {A: b}\n"), HasSubstr("must be a list of variables"));
  EXPECT_THAT(import_broken(pytorchjob("  pytorchReplicaSpecs:\n" + role("Worker", -1, kCommand))),
              HasSubstr("must be a number of pods"));
}

constexpr const char* kTrainJob =
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: fashion}\nspec:\n"
    "  runtimeRef: {name: torch-distributed, kind: ClusterTrainingRuntime}\n";

// In the shape of the examples of Kubeflow Trainer's getting-started page.
TEST(TrainJobTest, CountsNodesAndProcesses) {
  const Imported imported = import_valid(
      std::string(kTrainJob) +
      "  trainer: {numNodes: 3, numProcPerNode: 2, image: example/torch:1,\n"
      "            command: [torchrun, /workspace/train.py], args: [--lr, \"0.1\"],\n"
      "            env: [{name: A, value: b}], resourcesPerNode: {requests: {cpu: 4}}}\n");
  EXPECT_EQ(field(imported, "ranks"), 6);
  EXPECT_EQ(field(imported, "ranksPerPod"), 2);
  EXPECT_EQ(field(imported, "command"), json({"torchrun", "/workspace/train.py"}));
  EXPECT_EQ(refusals(imported), "");
  EXPECT_EQ(to_change(imported), "");
}

TEST(TrainJobTest, TakesNumbersThatAreTexts) {
  const Imported imported =
      import_valid(std::string(kTrainJob) +
                   "  trainer: {numNodes: 2, numProcPerNode: \"4\", image: i, command: [a]}\n");
  EXPECT_EQ(field(imported, "ranks"), 8);
  EXPECT_EQ(field(imported, "ranksPerPod"), 4);
}

TEST(TrainJobTest, MarksWhatItsRuntimeHolds) {
  const Imported imported = import_valid(kTrainJob);
  EXPECT_EQ(to_change(imported), "command image");
  EXPECT_EQ(field(imported, "ranks"), 1);
}

TEST(TrainJobTest, MarksProcessesThatFollowFromDevices) {
  const Imported imported = import_valid(std::string(kTrainJob) +
                                         "  suspend: true\n  labels: {a: b}\n"
                                         "  trainer: {numProcPerNode: auto, numNodes: 2, "
                                         "resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}\n");
  EXPECT_EQ(to_change(imported), "command image ranksPerPod");
  EXPECT_EQ(field(imported, "resources"), json({{"limits", {{"nvidia.com/gpu", 1}}}}));
  EXPECT_EQ(field(imported, "template.metadata.labels.a"), "b");
}

TEST(TrainJobTest, RefusesFetchingAndOtherRuntimes) {
  const Imported imported = import_valid(
      "kind: TrainJob\nmetadata: {name: tune}\nspec:\n  runtimeRef: {name: torchtune-llama3.2-1b}\n"
      "  initializer: {dataset: {storageUri: \"hf://a/b\"}}\n"
      "  podTemplateOverrides: [{targetJobs: [{name: node}]}]\n  modelConfig: {}\n");
  EXPECT_EQ(refusals(imported), "spec.runtimeRef.name spec.initializer spec.podTemplateOverrides");
}

TEST(TrainJobTest, RefusesAnotherController) {
  const Imported imported =
      import_valid(std::string(kTrainJob) +
                   "  managedBy: trainer.kubeflow.org/trainjob-controller\n"
                   "  trainer: {command: [python3, a.py], image: i, nodes: 2}\n");
  EXPECT_EQ(refusals(imported), "spec.trainer.nodes");
}

TEST(TrainJobTest, SaysWhereABrokenManifestIsBroken) {
  const auto of = [](const std::string& trainer) {
    return import_broken(std::string(kTrainJob) + "  trainer: {" + trainer + "}\n");
  };
  EXPECT_THAT(of("numNodes: 0"), HasSubstr("6 spec.trainer.numNodes: must be a number of nodes"));
  EXPECT_THAT(of("numProcPerNode: all"), HasSubstr("must be a number, auto, gpu or cpu"));
  EXPECT_THAT(of("command: sh"), HasSubstr("spec.trainer.command: cannot be"));
  EXPECT_THAT(of("env: [{value: x}]"), HasSubstr("without a name"));
  EXPECT_THAT(import_broken("kind: TrainJob\nspec: 3\n"), HasSubstr("spec: must be a map"));
}

// Kueue lets another job go by flipping its suspend, and one of ours by the gate of its pods.
TEST(KubeflowTest, AQueueHoldsPodsAndNotTheJob) {
  const auto of = [](const std::string& labels) {
    return import_valid("kind: TrainJob\nmetadata: {name: a, labels: {" + labels +
                        "}}\nspec: {suspend: true, trainer: {command: [a], image: b}}\n");
  };
  const Imported queued = of("kueue.x-k8s.io/queue-name: training");
  EXPECT_EQ(refusals(queued), "");
  EXPECT_EQ(queued.conversion.metadata.at("labels"),
            json({{"kueue.x-k8s.io/queue-name", "training"}}));
  EXPECT_EQ(fate(queued, "spec.suspend"), "changed");
  EXPECT_EQ(field(queued, "suspend"), json());
  EXPECT_EQ(field(of("team: a"), "suspend"), true);
}

TEST(KubeflowTest, GivesEveryKeyOneAnswerWhateverItsValue) {
  expect_one_answer_per_key(pytorchjob_table());
  expect_one_answer_per_key(trainjob_table());
}

}  // namespace
}  // namespace lockstep::convert
