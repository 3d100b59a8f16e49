#include "operator/api/manifest.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace lockstep::api {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;

// Lines are counted from 1: apiVersion is line 1, spec line 4, train line 6, steps line 17.
constexpr const char* kManifest =
    "apiVersion: lockstep.dev/v1alpha1\n"
    "kind: TrainingJob\n"
    "metadata: {name: tiny}\n"
    "spec:\n"
    "  ranks: 2\n"
    "  train:\n"
    "    model:\n"
    "      config:\n"
    "        vocab_size: 256\n"
    "        hidden_size: 64\n"
    "        intermediate_size: 128\n"
    "        num_hidden_layers: 2\n"
    "        num_attention_heads: 4\n"
    "    data: {train: corpus, sequenceLength: 32}\n"
    "    batch:\n"
    "      globalBatchSize: 8\n"
    "    steps: 100\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Manifest parse(const std::string& text, std::vector<std::string> sets = {}) {
  return parse_manifest(text, {.file_name = "dir/My_Run.yaml", .sets = std::move(sets)});
}

std::vector<std::string> lines_of(const Manifest& manifest) {
  std::vector<std::string> lines;
  for (const common::Problem& problem : manifest.problems) {
    lines.push_back(common::to_string(problem, "f"));
  }
  return lines;
}

TEST(ManifestTest, ValidManifestIsDecodedAndSaysWhatWasResolved) {
  const Manifest manifest = parse(kManifest);
  ASSERT_TRUE(manifest.problems.empty()) << lines_of(manifest).front();
  EXPECT_EQ(manifest.job.meta.name, "tiny");
  EXPECT_EQ(manifest.job.meta.ns, "default");
  EXPECT_EQ(manifest.job.spec.ranks, 2);
  EXPECT_EQ(manifest.job.spec.train["batch"]["microBatchSize"], 1);
  EXPECT_THAT(manifest.resolved,
              Contains("batch.accumulationSteps = 4 (globalBatchSize / (microBatchSize * ranks))"));
  EXPECT_THAT(manifest.resolved, Contains("schedule.warmupSteps = 3 (warmupRatio 0.03 of steps)"));
}

TEST(ManifestTest, OtherDocumentsAreCountedAndLinesStayThoseOfTheFile) {
  const std::string two = std::string("kind: Namespace\n---\n") +
                          replaced(kManifest, "steps: 100", "steps: 0") + "---\nkind: Service\n";
  const Manifest manifest = parse(two);
  EXPECT_EQ(manifest.num_other_documents, 2);
  EXPECT_EQ(lines_of(manifest),
            std::vector<std::string>{"f:19: spec.train.steps: must be at least 1, found 0"});
}

TEST(ManifestTest, BareTrainingConfigurationIsAJobOfOneRankNamedAfterTheFile) {
  std::string bare;
  std::istringstream lines(std::string(kManifest).substr(std::string(kManifest).find("    model")));
  for (std::string line; std::getline(lines, line);) bare += line.substr(4) + "\n";
  const Manifest manifest = parse(bare);
  ASSERT_TRUE(manifest.problems.empty()) << lines_of(manifest).front();
  EXPECT_TRUE(manifest.bare_train);
  EXPECT_EQ(manifest.job.meta.name, "my-run");
  EXPECT_EQ(manifest.job.spec.ranks, 1);
  EXPECT_EQ(
      lines_of(parse(replaced(bare, "steps: 100", "steps: no"))),
      std::vector<std::string>{"f:11: spec.train.steps: must be an integer, found string \"no\""});
}

TEST(ManifestTest, EveryMistakeIsNamedWithItsLine) {
  struct Case {
    std::string from, to, expected;
  };
  const std::vector<Case> table = {
      {"steps: 100", "steps: 100\n    stpes: 100",
       "f:18: spec.train.stpes: unknown field (did you mean \"steps\"?"},
      {"steps: 100", "steps: 100\n    precision: fp8",
       "f:18: spec.train.precision: string \"fp8\" is not supported by this version"},
      {"steps: 100", "steps: 100\n    lora: {rank: 8}", "f:18: spec.train.lora: needs model.path"},
      {"steps: 100", "steps: 100\n    steps: 3",
       "f:18: spec.train.steps: the key appears twice, first in line 17"},
      {"ranks: 2", "ranks: 3", "f:16: spec.train.batch.globalBatchSize: makes 8 micro-batches"},
      {"ranks: 2", "ranks: 4\n  ranksPerPod: 3",
       "f:6: spec.ranksPerPod: 3 does not divide ranks: 4"},
      {"ranks: 2", "ranks: 2\n  ranksPerPod: 65", "f:6: spec.ranksPerPod: must be"},
      {"ranks: 2", "ranks: 2\n  template: []", "f:6: spec.template: must be a map, found a list"},
      {"ranks: 2", "ranks: 2\n  template:\n    spec: {hostname: a}",
       "f:7: spec.template.spec.hostname: cannot be set"},
      {"ranks: 2", "ranks: 2\n  command: [a]",
       "f:6: spec.command: train and command exclude each other"},
      {"ranks: 2", "ranks: 2\n  env: [{name: RANK, value: '1'}]",
       "f:6: spec.env[0].name: RANK is set by the operator itself"},
      {"steps: 100", "steps: 100\n    communication: {env: {LOCKSTEP_JOB: x}}",
       "f:18: spec.train.communication.env.LOCKSTEP_JOB: LOCKSTEP_JOB is set by the operator "
       "itself"},
      {"steps: 100", "steps: 100\n    communication: {env: {NCCL_IB_DISABLE: 1}}",
       "f:18: spec.train.communication.env.NCCL_IB_DISABLE: must be a string, found 1"},
      {"steps: 100",
       "steps: 100\n    communication: {env: {B: '2'}}\n  env: [{name: A}, {name: B}]",
       "f:18: spec.train.communication.env.B: is set by spec.env[1] too (set it in one of them)"},
      {"ranks: 2", "ranks: 2\n  env: [{name: A, value: 1}]",
       "f:6: spec.env[0].value: must be a string, found 1 (put the value in quotes)"},
      {"ranks: 2", "ranks: 2\n  output: {emptyDir: {}, hostPath: {path: /x}}",
       "f:6: spec.output: must have exactly one of"},
      {"ranks: 2", "ranks: 2\n  inputs:\n  - {name: a, mountPath: /output, emptyDir: {}}",
       "f:7: spec.inputs[0].mountPath: /output is where output is mounted"},
      {"ranks: 2", "ranks: 2\n  inputs:\n  - {name: a, mountPath: data, emptyDir: {}}",
       "f:7: spec.inputs[0].mountPath: must be an absolute path, found string \"data\""},
      {"name: tiny", "name: Tiny", "f:3: metadata.name: must be lower-case letters"},
      {"lockstep.dev/v1alpha1", "lockstep.dev/v1",
       "f:1: apiVersion: must be lockstep.dev/v1alpha1"},
      {"spec:", "sepc: {}\nspec:", "f:4: sepc: unknown field"},
      {"kind: TrainingJob", "kind: TrainingJobs",
       "f: no TrainingJob in this file, found TrainingJobs"},
      {"    data: {", "    data: [", "f:14: line 14, column"},
  };
  for (const Case& c : table) {
    const Manifest manifest = parse(replaced(kManifest, c.from, c.to));
    ASSERT_EQ(manifest.problems.size(), 1U) << c.to << "\n"
                                            << testing::PrintToString(lines_of(manifest));
    EXPECT_THAT(lines_of(manifest).front(), HasSubstr(c.expected));
  }
}

TEST(ManifestTest, AllMistakesAreReportedAtOnceInOrderOfLines) {
  std::string text = replaced(kManifest, "ranks: 2", "ranks: 3");
  text = replaced(text, "num_attention_heads: 4", "num_attention_heads: 5");
  text = replaced(text, "steps: 100", "steps: 0\n    sede: 1");
  const std::vector<std::string> lines = lines_of(parse(text));
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[0], HasSubstr("f:10: spec.train.model.config.hidden_size"));
  EXPECT_THAT(lines[1], HasSubstr("f:16: spec.train.batch.globalBatchSize"));
  EXPECT_THAT(lines[2], HasSubstr("f:17: spec.train.steps"));
  EXPECT_THAT(lines[3], HasSubstr("f:18: spec.train.sede"));
}

TEST(ManifestTest, OverridesApplyInOrderAndAreYaml) {
  const Manifest manifest =
      parse(kManifest, {"ranks=8", "ranks=4", "train.parallelism.strategy=zero3",
                        "train.optimizer.betas=[0.8, 0.9]", "resources.limits[nvidia.com/gpu]=1",
                        "inputs[0]={name: a, mountPath: /a, emptyDir: {}}", "inputs[0].name=b",
                        "train.seed="});
  ASSERT_TRUE(manifest.problems.empty()) << lines_of(manifest).front();
  EXPECT_EQ(manifest.job.spec.ranks, 4);
  EXPECT_EQ(manifest.job.spec.train["parallelism"]["strategy"], "zero3");
  EXPECT_EQ(manifest.job.spec.train["optimizer"]["betas"], json({0.8, 0.9}));
  EXPECT_EQ(manifest.job.spec.resources, json::parse(R"({"limits": {"nvidia.com/gpu": 1}})"));
  EXPECT_EQ(manifest.job.spec.inputs[0]["name"], "b");
  EXPECT_EQ(manifest.job.spec.train["seed"], 42);
}

TEST(ManifestTest, OverridesThatDoNotFitAreNamed) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"train.stpes=3", "f: spec.train.stpes: unknown field, in --set train.stpes=3 (did you mean"},
      {"train.lora.rank=3", "spec.train.lora: needs model.path"},
      {"train.steps.x=3", "f: spec.train.steps.x: unknown field"},
      {"ranks", "f: --set ranks: has no '=' (write --set path=value)"},
      {"=3", "f: --set =3: the path is malformed"},
      {"a..b=3", "f: --set a..b=3: the path is malformed"},
      {"inputs[2].name=a", "f: spec.inputs[2]: the list has only 0 items"},
      {"inputs[x]=a", "f: spec.inputs: is a list"},
      {"ranks=[1", "f: --set ranks=[1: the value is not valid YAML"},
      {"train.steps=0", "f: spec.train.steps: must be at least 1, found 0, set by --set"},
      {"ranks=3", "f:16: spec.train.batch.globalBatchSize: makes 8 micro-batches"},
  };
  for (const auto& [set, expected] : table) {
    const Manifest manifest = parse(kManifest, {set});
    ASSERT_EQ(manifest.problems.size(), 1U) << set << testing::PrintToString(lines_of(manifest));
    EXPECT_THAT(lines_of(manifest).front(), HasSubstr(expected));
  }
}

TEST(ManifestTest, TextsThatAreNoManifestAreRefused) {
  for (const char* text : {"", "3", "[]", "hello", "a: 1", "---\n---\n", "\xff\xfe", "{}"}) {
    const Manifest manifest = parse(text);
    EXPECT_TRUE(common::has_errors(manifest.problems)) << text;
  }
  EXPECT_THAT(lines_of(parse(std::string(kManifest) + "---\n" + kManifest)).front(),
              HasSubstr("f:20: kind: the file holds more than one TrainingJob"));
}

TEST(ManifestTest, NamesFromFilesAreValid) {
  EXPECT_EQ(job_name_from_file("a/My_Run.train.yaml"), "my-run-train");
  EXPECT_EQ(job_name_from_file("7b.yml"), "b");
  EXPECT_EQ(job_name_from_file("__.json"), "train");
  EXPECT_EQ(job_name_from_file(std::string(80, 'x')), std::string(45, 'x'));
}

TEST(ManifestTest, FilesThatCannotBeReadAreErrors) {
  EXPECT_EQ(load_manifest("/nonexistent.yaml", {}).error().code, common::ErrorCode::kNotFound);
  EXPECT_EQ(load_manifest("/", {}).error().code, common::ErrorCode::kInvalidArgument);
}

TEST(ManifestTest, SetReachesIntoATemplate) {
  const Manifest manifest =
      parse_manifest(kManifest, {.file_name = "f",
                                 .sets = {"template.spec.containers=[{name: trainer}]",
                                          "template.spec.containers[0].tty=true"}});
  EXPECT_TRUE(manifest.problems.empty());
  EXPECT_EQ(manifest.job.spec.pod_template["spec"]["containers"],
            nlohmann::json::parse(R"([{"name": "trainer", "tty": true}])"));
  const Manifest beyond = parse_manifest(
      kManifest, {.file_name = "f",
                  .sets = {"template.spec.containers=[]", "template.spec.containers[1].tty=true"}});
  ASSERT_EQ(beyond.problems.size(), 1u);
  EXPECT_EQ(beyond.problems[0].path, "spec.template.spec.containers.1");
}

TEST(ManifestTest, QuickstartIsValid) {
  const common::Result<Manifest> manifest =
      load_manifest(std::string(support::kSourceTree) + "/examples/quickstart.yaml", {});
  ASSERT_TRUE(manifest.has_value());
  EXPECT_TRUE(manifest->problems.empty());
  EXPECT_EQ(manifest->num_other_documents, 1);
  EXPECT_EQ(manifest->job.meta.name, "quickstart");
  EXPECT_EQ(manifest->job.spec.ranks, 2);
}

TEST(ManifestTest, ExampleForRdmaIsValidAndAsksForWhatAFabricNeeds) {
  const common::Result<Manifest> manifest =
      load_manifest(std::string(support::kSourceTree) + "/examples/rdma.yaml", {});
  ASSERT_TRUE(manifest.has_value());
  EXPECT_TRUE(manifest->problems.empty());
  const TrainingJobSpec& spec = manifest->job.spec;
  EXPECT_TRUE(spec.resources["limits"].contains("rdma/hca_shared_devices_a"));
  EXPECT_TRUE(spec.resources["limits"].contains("hugepages-2Mi"));
  const nlohmann::json& pod_template = spec.pod_template;
  EXPECT_TRUE(pod_template["metadata"]["annotations"].contains("k8s.v1.cni.cncf.io/networks"));
  EXPECT_EQ(pod_template["spec"]["containers"][0]["securityContext"]["capabilities"]["add"],
            nlohmann::json({"IPC_LOCK"}));
}

}  // namespace
}  // namespace lockstep::api
